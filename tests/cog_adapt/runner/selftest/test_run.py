"""The self-test of a task, as a gate."""

import random
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.errors import GradientFlowError
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.selftest.run import run_at_start, run_self_test
from gradient_check.phases.float32 import Float32
from gradient_check.phases.modes import under_inference_mode
from gradient_check.tests.models import ConvNet
from gradient_check.tests.states import module_state, process_state, thread_modes
from tests.cog_adapt.devices import DEVICE, PLACE
from tests.cog_adapt.models import SHAPES, Images

ROOT = Path(__file__).parents[4]


def failures(report):
    return [f for part in report.reports for f in part.findings if f.level == "FAIL"]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_passes_in_every_precision_and_is_left_as_it_was(shape, precision):
    model = LoadedModel(SHAPES[shape](), RunnerSettings(device=DEVICE, precision=precision))
    before = module_state(model.base.module), process_state(), thread_modes()
    report = run_self_test(model)
    assert report.passed, str(report)
    assert {part.precision for part in report.reports} == {f"{PLACE}/{precision}", f"{PLACE}/fp32"}
    assert (module_state(model.base.module), process_state(), thread_modes()) == before
    assert not model.base.census.changes(model.base.module)


def test_it_passes_inside_an_ambient_inference_mode_and_on_the_model_thread(make_runner):
    model = LoadedModel(SHAPES["letters"](), RunnerSettings(device=DEVICE))
    assert under_inference_mode(run_self_test, model).passed
    assert make_runner(SHAPES["letters"]()).self_test().passed


def started(task, folder, **more):
    """Test as a new process does at its start; return the level and whether it passed."""
    settings = RunnerSettings(device="cpu", weights_dir=folder, **more)
    report = run_at_start(LoadedModel(task, settings), settings)
    return report.level, report.passed


def test_the_first_start_tests_all_and_the_next_is_quick(tmp_path):
    assert [started(Images(), tmp_path) for _ in range(3)] == [
        ("full", True),
        ("quick", True),
        ("quick", True),
    ]


class Sampling(Images):
    """Its loss draws noise of no seed in inference, so what is served cannot be compared."""

    def loss(self, module, batch, targets):
        noise = 0.5 if torch.is_grad_enabled() else random.SystemRandom().random()
        return super().loss(module, {"x": batch["x"] * (1 + noise)}, targets)


def test_strictly_what_was_left_out_fails_at_a_start_where_a_plain_one_has_passed(tmp_path):
    assert started(Sampling(), tmp_path) == ("full", True)
    assert started(Sampling(), tmp_path, self_test_strict=True) == ("full", False)
    assert started(Sampling(), tmp_path) == ("quick", True)


def test_full_ignores_a_kept_pass_and_off_tests_nothing(tmp_path):
    started(Images(), tmp_path)
    assert started(Images(), tmp_path, self_test="full") == ("full", True)
    assert started(Images(), tmp_path, self_test="off") == ("off", False)
    assert started(Images(), tmp_path, self_test="quick") == ("quick", True)


def test_a_test_that_is_off_says_so_and_raises_nothing(tmp_path, caplog):
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path, self_test="off")
    report = run_at_start(LoadedModel(Images(), settings), settings)
    report.raise_if_failed()
    assert (report.to_json()["passed"], report.to_json()["level"]) == (None, "off")
    for text in (str(report), report.to_json()["detail"], caplog.text):
        assert "off (SELF_TEST=off): nothing proves that gradients flow" in text
    assert not list(tmp_path.iterdir())


def test_another_precision_or_task_is_tested_whole(tmp_path):
    started(Images(), tmp_path)
    assert started(Images(), tmp_path, precision="bf16") == ("full", True)
    assert started(SHAPES["regression"](), tmp_path) == ("full", True)


@pytest.mark.parametrize("content", [None, b"", b"{", b"{}"])
def test_a_pass_that_is_missing_or_broken_means_the_whole_test(tmp_path, content):
    started(Images(), tmp_path)
    (file,) = (tmp_path / "selftest").iterdir()
    file.unlink() if content is None else file.write_bytes(content)
    assert started(Images(), tmp_path) == ("full", True)
    assert started(Images(), tmp_path) == ("quick", True)


def test_where_no_pass_can_be_kept_every_start_tests_all(tmp_path, caplog):
    (tmp_path / "selftest").write_text("a file in the way")
    assert [started(Images(), tmp_path) for _ in range(2)] == 2 * [("full", True)]
    assert "is not kept" in caplog.text


def test_code_that_cannot_be_read_means_the_whole_test_and_no_pass(tmp_path, monkeypatch, caplog):
    def unreadable(_model):
        raise OSError("task.py is gone")

    monkeypatch.setattr("cog_adapt.runner.selftest.run.conditions_of", unreadable)
    assert [started(Images(), tmp_path) for _ in range(2)] == 2 * [("full", True)]
    assert "task.py is gone" in caplog.text


def test_a_failure_keeps_no_pass_and_a_quick_one_drops_it(tmp_path):
    task: Any = Images()
    task.fault = lambda losses: losses.detach()
    assert started(task, tmp_path) == ("full", False)
    assert not (tmp_path / "selftest").exists()
    assert started(Images(), tmp_path) == ("full", True)
    faulty: Any = Images()
    faulty.fault = lambda losses: losses.detach()  # an object is no part of the conditions
    assert started(faulty, tmp_path) == ("quick", False)
    assert started(faulty, tmp_path) == ("full", False)


def test_the_quick_report_names_what_the_whole_test_warned_of(tmp_path):
    task: Any = Images()
    task.stop_gradients = ("nowhere",)
    started(task, tmp_path)
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path)
    report = run_at_start(LoadedModel(task, settings), settings)
    assert report.to_json()["level"] == "quick"
    assert "kept-pass" in report.codes
    assert "stop-gradient" in str(report)


def test_a_test_that_is_asked_for_again_is_whole(make_runner):
    runner = make_runner(Images(), self_test="off")
    assert runner.self_test().level == "off"
    assert runner.self_test().level == "full"
    assert make_runner(Images()).self_test().level == "quick"


def test_where_the_base_does_not_fit_only_the_methods_parameters_are_tested(monkeypatch):
    model = LoadedModel(SHAPES["letters"](), RunnerSettings(device="cpu"))
    monkeypatch.setattr("gradient_check.phases.room.free_memory", lambda _device: 1000)
    report = run_self_test(model)
    assert report.passed, str(report)
    assert "method-only" in report.codes
    names = set(report.reports[1].gradient_norms)
    assert names <= set(model.start(model.task.probe(), Recipe("lora")).trained.tensors)
    assert any(name.endswith("lora_b") for name in names)


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
    assert "computes with a module other than its argument" in finding.message
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
        (lambda losses: losses.unsqueeze(1).repeat(1, 4), "loss-shape"),
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


def test_float32_is_exact_during_the_test_and_as_it_was_afterwards(make_runner, float32):
    seen: set[Float32] = set()

    def see(losses):
        seen.add(Float32.current())
        return losses

    runner = make_runner(SHAPES["images"]())
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    loose = Float32.current()
    runner.model.task.fault = see
    assert runner.self_test().passed
    assert {"tf32" in one.backends for one in seen} == {False}
    assert {one.products for one in seen} == {"highest"}
    assert Float32.current() == loose


@pytest.fixture
def float32():
    """Puts back how float32 is computed."""
    before = Float32.current()
    yield
    before.put_back()
