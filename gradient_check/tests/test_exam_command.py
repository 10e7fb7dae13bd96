"""The exam as a command: what it prints and writes, and which libraries its processes have."""

import json
import sys

import pytest
import torch
from torch import nn

from gradient_check.exam import __main__ as command
from gradient_check.exam.case import Case, Question, rows


@pytest.fixture
def examine(monkeypatch, tmp_path):
    """Run the command with some arguments; the JSON that it writes."""

    def run(*arguments):
        output = tmp_path / "exam.json"
        threads = str(torch.get_num_threads())
        given = ["exam", "--threads", threads, "--output", str(output), *arguments]
        monkeypatch.setattr(sys, "argv", given)
        command.main()
        return json.loads(output.read_text())

    return run


def test_one_set_gives_a_table_the_shares_and_each_answer(examine, capsys):
    result = examine("--set", "plain", "--only", "features_are_(rounded|flipped_in_numpy)")
    (row,) = result["table"]
    assert (row["cases"], row["alarm"], row["right code"]) == (2, 2, 2)
    assert result["shares"]["alarm"] == "2/2 (100.0 %, 34.2 to 100.0)"
    assert "healthy passed" not in result["shares"]
    assert {answer["name"] for answer in result["answers"]} == {
        *("features_are_rounded", "features_are_flipped_in_numpy"),
    }
    assert "cases 2, alarm 2, right code 2" in capsys.readouterr().out


def test_a_wrong_answer_is_printed_with_its_findings_and_refused_arguments_are_one(
    examine, capsys, monkeypatch
):
    def refused():
        return Case(nn.Linear(4, 2), rows(3, 4), options={"precision": "int3"})

    asked = [Question("some", "sound", refused)]
    monkeypatch.setattr(command, "questions", lambda name, only: asked)
    result = examine("--set", "plain")
    (answer,) = result["answers"]
    assert answer["alarm"]
    assert result["shares"] == {"healthy passed": "0/1 (0.0 %, 0.0 to 79.3)"}
    printed = capsys.readouterr().out
    assert "some: sound\n    " in printed
    assert "int3" in printed


def test_without_a_set_each_is_asked_in_a_process_that_alone_has_its_folder(
    examine, monkeypatch, tmp_path
):
    folder, seen = tmp_path / "libraries", tmp_path / "seen"
    folder.mkdir()
    note = f"import sys\nopen({str(seen)!r}, 'a').write(sys.orig_argv[4] + '\\n')\n"
    (folder / "sitecustomize.py").write_text(note)
    result = examine("--only", "features_are_rounded", "--transformers", str(folder))
    (row,) = result["table"]
    assert (row["cases"], row["alarm"]) == (1, 1)
    assert result.keys() == {"table", "wrong"}
    assert seen.read_text().splitlines() == ["transformers"]
