"""The self-test of a task, as a gate and as a command."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import GradientFlowError
from cog_adapt.runner.loaded_model import LoadedModel
from cog_adapt.runner.modes import under_inference_mode
from cog_adapt.runner.selftest import main, run_self_test
from tests.cog_adapt.conftest import module_state, process_state, thread_modes
from tests.cog_adapt.models import SHAPES, ConvNet, Images

ROOT = Path(__file__).parents[3]
TASK = """
from tests.cog_adapt.models import Images


class Own(Images):
    pass


class Cut(Images):
    def loss(self, module, batch, targets):
        return super().loss(module, {"x": batch["x"]}, targets).detach()


NotATask = dict
"""


def failures(report):
    return [f for part in report.reports for f in part.findings if f.level == "FAIL"]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_passes_in_every_precision_and_is_left_as_it_was(shape, precision):
    model = LoadedModel(SHAPES[shape](), RunnerSettings(device="cpu", precision=precision))
    before = module_state(model.base), process_state(), thread_modes()
    report = run_self_test(model)
    assert report.passed, str(report)
    assert {part.precision for part in report.reports} == {f"cpu/{precision}", "cpu/fp32"}
    assert (module_state(model.base), process_state(), thread_modes()) == before
    assert not model.census.changes(model.base)


def test_it_passes_inside_an_ambient_inference_mode_and_on_the_model_thread(make_runner):
    model = LoadedModel(SHAPES["letters"](), RunnerSettings(device="cpu"))
    assert under_inference_mode(run_self_test, model).passed
    assert make_runner(SHAPES["letters"]()).self_test().passed


def test_the_surroundings_are_checked_after_the_gradient(make_runner):
    report = make_runner(SHAPES["letters"]()).self_test()
    names = [check.name for check in report.reports[-1].checks]
    assert names == ["another-thread", "ambient-inference", "checkpointing"]


class Deliberate(Images):
    """Its convolution sees no gradient, on purpose."""

    def loss(self, module, batch, targets):
        hidden = module.norm(module.conv(batch["x"].unsqueeze(1)).detach())
        logits = module.head(F.gelu(module.fc(F.relu(hidden).flatten(1))))
        return F.cross_entropy(logits.float(), targets, reduction="none")


def test_a_deliberate_stop_of_gradients_passes_only_where_it_is_declared(make_runner):
    report = make_runner(Deliberate()).self_test()
    assert "graph-cut" in report.codes, str(report)
    declared: Any = Deliberate()
    declared.stop_gradients = (r"conv\..*",)
    report = make_runner(declared).self_test()
    assert report.passed, str(report)


class Absent(Images):
    """Its loss takes the module that `load` built, not the one that it is given."""

    def load(self):
        self.model = super().load()
        return self.model

    def loss(self, module, batch, targets):
        logits = self.model(**batch)
        return F.cross_entropy(logits[:, :2], targets, reduction="none")


def test_a_loss_that_uses_another_module_than_its_own_is_told_so(make_runner):
    finding = failures(make_runner(Absent()).self_test())[0]
    assert finding.code == "unused"
    assert "does not use the module that it is given" in finding.message
    assert "`unused`" not in finding.message
    assert "logits = self.model(**batch)" in finding.line


class Cold(ConvNet):
    @torch.inference_mode()
    def hidden(self, x):
        return F.relu(self.norm(self.conv(x.unsqueeze(1))))

    def forward(self, x):
        return self.head(self.fc(self.hidden(x).flatten(1)))


class WithCold(Images):
    def module(self):
        return Cold()


def test_the_culprit_is_the_tasks_line_and_not_the_wrapper_of_a_lora_layer(make_runner):
    finding = failures(make_runner(WithCold()).self_test())[0]
    assert finding.code == "train-forward"
    assert "@torch.inference_mode()" in finding.line
    assert "lora.py" not in str(finding)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (lambda losses: losses.detach(), "graph-cut"),
        (lambda losses: losses * float("nan"), "loss-nonfinite"),
        (lambda losses: losses.unsqueeze(1) * torch.ones(1, 4), "loss-shape"),
        (lambda losses: losses.round(), "grad-zero"),
    ],
)
def test_a_fault_of_the_tasks_loss_fails_with_its_code(make_runner, fault, code):
    task = SHAPES["images"]()
    task.fault = fault
    report = make_runner(task).self_test()
    assert not report.passed
    assert code in report.codes, str(report)
    with pytest.raises(GradientFlowError, match=code):
        report.raise_if_failed()


def test_a_module_that_behaves_differently_on_another_thread_is_found(make_runner):
    letters: Any = SHAPES["letters"]

    class ThreadBound(letters):
        def loss(self, module, batch, targets):
            losses = super().loss(module, batch, targets)
            strange = threading.current_thread().name == "self-test"
            return losses * 2 if strange else losses

    report = make_runner(ThreadBound()).self_test()
    assert [f.code for f in failures(report)] == ["another-thread"]


def test_a_mode_decorator_on_an_async_door_is_found(make_runner):
    @torch.inference_mode()
    async def run(text):
        return text

    report = make_runner(SHAPES["letters"]()).self_test(run)
    assert "async-decorated" in report.codes


@pytest.fixture
def task_file(tmp_path):
    path = tmp_path / "own_task.py"
    path.write_text(TASK)
    return path


def test_the_command_tests_a_task_of_ones_own(task_file, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DEVICE", "cpu")
    output = tmp_path / "report.json"
    assert main([f"{task_file}:Own", "--json", str(output)]) == 0
    report = json.loads(output.read_text())
    assert report["passed"] is True
    assert report["environment"]["torch"] == torch.__version__
    assert "passed" in capsys.readouterr().out


def test_the_command_exits_with_1_where_the_test_fails_and_names_the_line(task_file):
    command = [sys.executable, "-m", "cog_adapt.runner.selftest", f"{task_file}:Cut"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={"DEVICE": "cpu", "COLUMNS": "300", "PYTHONPATH": str(ROOT), "PATH": "/usr/bin"},
    )
    assert done.returncode == 1
    assert "graph-cut" in done.stdout
    assert ".detach()" in done.stdout
    assert "own_task.py" in done.stdout


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
    assert "cannot be loaded: ModuleNotFoundError" in shown.replace("\n", " ")
    assert "Traceback" not in shown
