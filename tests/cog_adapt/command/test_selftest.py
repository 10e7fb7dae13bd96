"""`cog-adapt selftest`: a screen that ends with the verdict, or a sentence of what is wrong."""

import contextlib
import json
import os
import platform
import pty
import re
import subprocess
import sys

import pytest
import torch

from cog_adapt.command.selftest import main
from tests.cog_adapt.command.test_new import environment
from tests.cog_adapt.server.command.conftest import ROOT

TASK = """
from tests.cog_adapt.models import Images


class Own(Images):
    pass


class Cut(Images):
    def loss(self, module, batch, targets):
        return super().loss(module, {"x": batch["x"]}, targets).detach()


NotATask = dict
"""


@pytest.fixture
def task_file(tmp_path):
    path = tmp_path / "own_task.py"
    path.write_text(TASK)
    return path


def test_the_command_tests_a_task_of_ones_own(task_file, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DEVICE", "cpu")
    monkeypatch.setenv("WEIGHTS_DIR", str(tmp_path / "weights"))
    output = tmp_path / "report.json"
    assert main([f"{task_file}:Own", "--json", str(output)]) == 0
    report = json.loads(output.read_text())
    assert report["passed"] is True
    assert report["environment"]["torch"] == torch.__version__
    assert report["environment"]["device"] == platform.machine()
    assert "passed" in capsys.readouterr().out
    assert len(list((tmp_path / "weights" / "selftest").iterdir())) == 1


def test_where_it_fails_the_line_is_named_and_the_verdict_is_last(task_file, monkeypatch, capsys):
    monkeypatch.setenv("DEVICE", "cpu")
    monkeypatch.setenv("COLUMNS", "1000")
    assert main([f"{task_file}:Cut"]) == 1
    *above, verdict = capsys.readouterr().out.splitlines()
    (fault,) = [line for line in above if line.startswith("FAIL graph-cut")]
    assert ".detach()" in fault
    assert "own_task.py" in fault
    assert verdict.startswith("The self-test failed (graph-cut): ")


def test_the_command_says_why_a_demanded_device_is_not_there(task_file, monkeypatch, capsys):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    monkeypatch.setenv("DEVICE", "cuda")
    assert main([f"{task_file}:Own"]) == 1
    assert "SetupError" in capsys.readouterr().out


def test_a_mistake_in_the_file_is_a_sentence_and_no_traceback(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DEVICE", "cpu")
    path = tmp_path / "broken.py"
    path.write_text("import no_such_module\n")
    assert main([str(path)]) == 1
    shown = capsys.readouterr().out
    assert "cannot be loaded: ModuleNotFoundError" in " ".join(shown.split())  # it is wrapped
    assert "Traceback" not in shown


@pytest.mark.parametrize("value", ['"("', '"[a-z]+("', "5", '["weight", 3]'])
def test_a_wrong_pattern_is_a_sentence_and_no_traceback(task_file, monkeypatch, capsys, value):
    monkeypatch.setenv("DEVICE", "cpu")
    monkeypatch.setenv("COLUMNS", "300")
    task_file.write_text(f"{TASK}\n\nclass Wrong(Own):\n    lora_targets = {value}\n")
    assert main([f"{task_file}:Wrong"]) == 1
    shown = capsys.readouterr().out
    assert f"Wrong.lora_targets is {value}, which".replace('"', "'") in shown
    assert "Traceback" not in shown


def test_a_report_that_cannot_be_written_is_refused_before_the_test(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    for path in (tmp_path, tmp_path / "gone" / "report.json"):
        assert main(["gone.py", "--json", str(path)]) == 1
        assert f"--json '{path}' cannot be written" in capsys.readouterr().out


@pytest.fixture
def on_terminal(tmp_path):
    """Runs the command on a terminal of 80 columns in a folder; returns its code and its lines."""

    def run(*arguments, **variables):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "cog_adapt", "selftest", *arguments],
            cwd=tmp_path,
            env=environment(NO_COLOR="1", COLUMNS="80", PYTHONPATH=str(ROOT)) | variables,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        screen = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while piece := os.read(ours, 65536):
                screen += piece
        os.close(ours)
        shown = re.sub("\x1b\\[[0-9;]*m", "", screen.decode())
        return process.wait(60), [line.rstrip() for line in shown.splitlines()]

    return run


def test_a_terminal_shows_a_screen_whose_last_line_is_the_verdict(on_terminal, task_file):
    code, lines = on_terminal(f"{task_file}:Own")
    assert code == 0, lines
    assert lines[0] == "self-test of Own on cpu/fp32: seconds, or minutes for a large model"
    assert len(lines) <= 24
    said = " ".join(lines)
    assert "unverified  " in said
    assert "left out    " in said
    assert "gradient norm" not in said
    assert re.search(
        r"The self-test passed: \d+ trained tensors, \d+ of \d+ checks run, \S+ s\.$", said
    )


def test_the_tables_of_checks_and_layers_are_shown_on_request(task_file, monkeypatch, capsys):
    monkeypatch.setenv("DEVICE", "cpu")
    assert main([f"{task_file}:Own", "-v"]) == 0
    shown = capsys.readouterr().out
    assert "outcome" in shown
    assert "gradient norm" in shown
    assert shown.rstrip().splitlines()[-1].endswith("s.")


def test_without_torch_one_sentence_says_what_to_install(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(name='torch')\n")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cog_adapt", "selftest"],
        cwd=tmp_path,
        env=environment(PYTHONPATH=f"{tmp_path}:{ROOT}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "error: torch is not installed, and `cog-adapt selftest` needs it."
    )
    assert "`make setup`" in done.stderr


WITHOUT_WEIGHTS = """
from cog_adapt import WeightsError
from tests.cog_adapt.models import Images


class Own(Images):
    def load(self):
        raise WeightsError("no weights are installed. Run `make setup`.")
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "ConfigError: there is no file 'task.py' in "),
        (b"\xff\x00", "ConfigError: task.py cannot be loaded: "),
        (b"class", "ConfigError: task.py cannot be loaded: SyntaxError"),
        (
            WITHOUT_WEIGHTS.encode(),
            "WeightsError: no weights are installed. Run `make setup`.",
        ),
    ],
)
def test_what_keeps_it_from_testing_is_one_sentence(on_terminal, tmp_path, text, said):
    if text is not None:
        (tmp_path / "task.py").write_bytes(text)
    code, lines = on_terminal(COLUMNS="400")
    assert code == 1
    (line,) = lines
    assert line.startswith(said)


def test_the_command_fails_strictly_where_a_plain_test_passes(task_file, monkeypatch, capsys):
    monkeypatch.setenv("DEVICE", "cpu")
    monkeypatch.setenv("COLUMNS", "300")
    task_file.write_text(
        f"{TASK}\n\nfrom tests.cog_adapt.runner.selftest.test_run import Sampling\n"
    )
    assert main([f"{task_file}:Sampling"]) == 0
    left_out = re.findall(r"^left out    (.+?): \w", capsys.readouterr().out, re.MULTILINE)
    assert left_out == ["replica", "serving agrees", "concurrency"]
    assert main([f"{task_file}:Sampling", "--strict"]) == 1
    assert "left-out" in capsys.readouterr().out
