"""One run, from flags to output and exit code."""

import contextlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cog_adapt.client import Event
from cog_adapt.server.command import session
from cog_adapt.server.command.session import Options, run_once
from cog_adapt.server.errors import InputError
from tests.cog_adapt.server.command.conftest import DONE, expect_events, url_of


def test_an_output_is_json_and_what_was_printed_goes_to_standard_error(run):
    done = run("predict", "-i", "text=hello", "-i", "scale=2.5")
    assert done.code == 0
    assert json.loads(done.out) == {"file": None, "mask": None, "score": 2.5}
    assert done.err == "text 'hello' None []\nto standard error\n"


def test_files_go_in_and_come_out(run, tmp_path):
    (tmp_path / "in.txt").write_text("one")
    (tmp_path / "two.txt").write_text("two")
    done = run(
        "predict",
        *("-i", "file=@in.txt", "-i", "files=@in.txt", "-i", "files=@two.txt"),
        *("-i", "kind=files"),
    )
    assert "one ['one', 'two']" in done.err
    assert json.loads(done.out) == {
        "file": "output.file.txt",
        "mask": "output.mask.png",
        "score": 1.0,
    }
    assert (tmp_path / "output.file.txt").read_text() == "A"
    assert (tmp_path / "output.mask.png").read_text() == "B"
    assert "written: output.mask.png" in done.err


def test_a_training_writes_its_weights(run, tmp_path):
    (tmp_path / "config.json").write_text('{"rate": 1}')
    done = run("train", "-i", "size=3", "-i", "config=@config.json")
    assert (done.code, json.loads(done.out)) == (0, {"weights": "weights.safetensors"})
    assert "training 3 {'rate': 1}" in done.err
    assert (tmp_path / "weights.safetensors").read_bytes().endswith(b'{"a":1}')


def test_json_is_the_whole_final_object(run, tmp_path):
    done = run("predict", "-i", "pauses=1", "--json")
    assert json.loads(done.out)["metrics"]["adaptation"] == {"step": 1}
    again = run("predict", "--json", "-o", "all.json")
    assert again.out == ""
    assert json.loads((tmp_path / "all.json").read_text())["status"] == "succeeded"


def test_a_failure_is_told_with_its_reason_and_traceback(run):
    done = run("predict", "-i", "kind=fail")
    assert (done.code, done.out) == (1, "")
    assert "Traceback" in done.err
    assert "failed: " in done.err.splitlines()[-1]
    assert "ValueError: told to" in done.err.splitlines()[-1]
    assert json.loads(run("predict", "-i", "kind=fail", "--json").out)["status"] == "failed"


def test_wrong_inputs_are_all_named_before_anything_runs(run):
    done = run(
        "predict",
        *("-i", "txt=x", "-i", "pauses=many", "-i", "steps=1", "-i", "steps=2"),
        *("-i", "kind=other", "-i", "scale=nan"),
    )
    assert (done.code, done.out) == (2, "")
    lines = done.err.splitlines()
    assert lines[0].startswith("error: txt is no input; allowed: text, file, files, pauses")
    assert lines[0].endswith("Did you mean text?")
    assert lines[1:] == [
        "pauses is 'many': allowed: a whole number.",
        "steps is '1', '2': allowed: one value. Give the flag once.",
        "scale is 'nan': allowed: a number.",
        'kind: "other" is not one of ["plain","files","fail"]',
    ]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-i", "text"], "-i text: allowed: name=value"),
        (["-i", "=x"], "-i =x: allowed: name=value"),
        (["-i", "file=@missing"], "there is no file missing"),
        (["-o", "missing/out"], "there is no folder missing"),
        (["--env", "A=1"], "with --url leave it out"),
        (["-i", "pauses=1001"], "pauses: 1001 is greater than the maximum of 1000"),
        (["--bad"], "No such option"),
    ],
)
def test_a_wrong_flag_is_refused_with_exit_code_2(run, arguments, reason):
    done = run("predict", *arguments)
    assert done.code == 2
    assert reason in done.err


def test_a_wrong_key_is_told_with_the_remedy(run, mirror):
    done = run("predict", "--key", "wrong")
    assert done.code == 1
    assert "answered 401" in done.err
    assert "--key" in done.err


def test_a_canceled_run_that_nobody_interrupted_is_a_failure(run, other):
    expect_events(other, ("completed", {**DONE, "status": "canceled"}))
    done = run("predict", url=url_of(other))
    assert (done.code, done.err) == (1, "canceled\n")


def test_an_output_of_nothing_is_said(run, other):
    expect_events(other, ("completed", {**DONE, "output": None}))
    done = run("predict", url=url_of(other))
    assert (done.code, done.out, done.err) == (0, "", "no output\n")


def options(kind="predict", **changes):
    given: Any = {"flags": [], "output": None, "url": "http://h", "key": None, "whole": False}
    return Options(kind, **{**given, "variables": [], "setup_seconds": 7.0, **changes})


@pytest.fixture
def final(monkeypatch):
    """The final object of a run of a server that is only thought of; change it to need."""
    final: dict[str, Any] = {"status": "succeeded", "output": "text"}
    final["interrupted"] = SimpleNamespace(once=False)
    output = final["schema"] = {"type": "string"}
    document = {"components": {"schemas": {"Input": {}, "TrainingInput": {}, "Output": output}}}

    def events(inputs, kind, run_id):
        final["run"] = SimpleNamespace(inputs=inputs, kind=kind, id=run_id)
        shown: dict[str, Any] = {
            key: final[key] for key in ("status", "output", "error") if key in final
        }
        if isinstance(final["output"], list):
            yield from (Event("output", {"chunk": chunk}) for chunk in final["output"])
        yield Event("completed", shown)

    final["client"] = client = SimpleNamespace(
        events=events,
        wait_until_ready=lambda seconds: final.update(waited=seconds),
        document=lambda: document,
        close=lambda: final.update(closed=True),
    )

    @contextlib.contextmanager
    def canceling(cancel, say):
        yield final["interrupted"]

    monkeypatch.setattr(session, "Client", lambda *where: final.update(where=where) or client)
    monkeypatch.setattr(session, "canceling", canceling)
    return final


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_server_is_waited_for_and_closed(final):
    assert run_once(options(key="k")) == 0
    assert (final["where"], final["waited"], final["closed"]) == (("http://h", "k"), 7.0, True)


@pytest.mark.parametrize("kind", ["predict", "train"])
def test_the_run_is_of_its_kind_and_has_an_id_of_its_own(final, kind):
    run_once(options(kind))
    first = final["run"]
    assert (first.kind, first.inputs) == (kind, {})
    run_once(options(kind))
    assert len(first.id) == 32
    assert first.id != final["run"].id


@pytest.mark.parametrize(
    ("status", "pressed", "code"),
    [
        ("succeeded", False, 0),
        ("succeeded", True, 0),
        ("failed", False, 1),
        ("failed", True, 1),
        ("canceled", False, 1),
        ("canceled", True, 130),
    ],
)
def test_the_exit_code_says_how_it_ended(final, status, pressed, code):
    final["status"], final["interrupted"].once = status, pressed
    assert run_once(options()) == code


@pytest.mark.parametrize(("kind", "stem"), [("predict", "output"), ("train", "weights")])
def test_files_are_called_by_the_kind(final, folder, capsys, kind, stem):
    final["output"] = "data:text/plain;base64,aGk="
    assert run_once(options(kind)) == 0
    assert (folder / f"{stem}.txt").read_text() == "hi"
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"written: {stem}.txt\n")


def test_what_is_left_beside_files_is_printed(final, folder, capsys):
    final["output"] = {"file": "data:text/plain;base64,aGk=", "n": 1}
    run_once(options(output=Path("mine")))
    assert json.loads(capsys.readouterr().out) == {"file": "mine.txt", "n": 1}
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_a_result_goes_into_the_file_that_is_named(final, folder, capsys):
    assert run_once(options(output=Path("mine"))) == 0
    assert (folder / "mine").read_text() == "text\n"
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "written: mine\n")


def test_a_result_is_printed_as_text_or_json(final, capsys):
    run_once(options())
    final["output"] = {"a": 1}
    run_once(options())
    assert capsys.readouterr().out == 'text\n{\n  "a": 1\n}\n'


@pytest.mark.parametrize(
    ("status", "printed"), [("succeeded", "one two\n"), ("failed", "one two\n")]
)
def test_the_pieces_of_a_text_are_printed_as_they_come(final, capsys, status, printed):
    final["schema"]["x-cog-array-display"] = "concatenate"
    final |= {"status": status, "output": ["one ", "two"]}
    run_once(options())
    assert capsys.readouterr().out == printed


def test_the_pieces_of_a_text_are_joined_for_a_file(final, folder, capsys):
    final["schema"]["x-cog-array-display"] = "concatenate"
    final["output"] = ["one ", "two"]
    run_once(options(output=Path("mine")))
    assert capsys.readouterr().out == ""
    assert (folder / "mine").read_text() == "one two\n"


def test_the_whole_object_is_json(final, capsys):
    final["schema"]["x-cog-array-display"] = "concatenate"
    final |= {"status": "failed", "output": ["one "], "error": "boom"}
    assert run_once(options(whole=True)) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"status": "failed", "output": ["one "], "error": "boom"}
    assert printed.err == "failed: boom\n"


def test_a_failure_without_a_reason_is_its_status(final, capsys):
    final["status"] = "failed"
    run_once(options())
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "failed\n")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"flags": ["x"]}, "-i x: allowed: name=value"),
        ({"output": Path("missing/out")}, "there is no folder missing"),
        ({"variables": ["A=1"]}, "--env is for a server that is started here"),
        ({"variables": ["A"], "url": None}, "--env A: allowed: NAME=VALUE."),
        ({"variables": ["=1"], "url": None}, "--env =1: allowed: NAME=VALUE."),
    ],
)
def test_a_wrong_option_is_refused_before_anything_runs(final, changes, reason):
    with pytest.raises(InputError, match=f"^{reason}|{reason}"):
        run_once(options(**changes))
    assert "run" not in final


def test_without_a_url_a_server_is_started_with_the_variables(final, monkeypatch):
    @contextlib.contextmanager
    def local_server(kind, variables):
        final["started"] = kind, variables
        yield final["client"]

    monkeypatch.setattr(session, "local_server", local_server)
    assert run_once(options("train", url=None, variables=["A=1", "B=x=y", "C="])) == 0
    assert final["started"] == ("train", {"A": "1", "B": "x=y", "C": ""})
