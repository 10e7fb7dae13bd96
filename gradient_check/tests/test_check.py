"""Every planted fault is named with its place, no healthy model fails, and no trace is left."""

import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gradient_check import GradientReport, check_gradients
from gradient_check.exam.case import Question
from gradient_check.exam.judging import judge
from gradient_check.exam.known.hosts import Block, Tower, rows, squares
from gradient_check.exam.sets import questions
from gradient_check.phases.census import Census, checksums, is_healthy
from gradient_check.phases.errors import ConfigError, GradientFlowError
from gradient_check.phases.modes import ThreadModes
from gradient_check.phases.precision import Precision
from gradient_check.tests.present import present

FAULTS = [question for question in questions("known") if question.is_fault]
HEALTHY = [question for question in questions("known") if not question.is_fault]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def state_of(module: Any) -> dict[str, Any]:
    """Everything that a self-test must leave as it was."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    bits = {n: t for n, t in tensors.items() if not is_lazy(t) and is_healthy(t)}
    numpy_state: Any = np.random.get_state()
    return {
        "bits": checksums(bits),
        "tensors": {n: (id(t), t.requires_grad, id(t.grad)) for n, t in tensors.items()},
        "flags": [part.training for part in module.modules()],
        "attributes": [sorted(vars(part)) for part in module.modules()],
        "hooks": [len(part._forward_hooks) for part in module.modules()],
        "modes": ThreadModes.current(),
        "process": Census.of(nn.Identity()).process,
        "torch stream": torch.get_rng_state().tolist(),
        "python stream": random.getstate(),
        "numpy stream": (numpy_state[1].tolist(), numpy_state[2]),
    }


def checked(question: Question) -> GradientReport:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some faults warn, which is not what is tested
        case = question.make()
        before = state_of(case.module)
        report = check_gradients(case.module, case.probe, case.loss, **case.options)
        assert state_of(case.module) == before
    return report


# Once a worker died of SIGABRT in the step of one of these; a test whose worker died runs again.
@pytest.mark.flaky(reruns=1)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_named_with_its_place(fault: Question) -> None:
    report = checked(fault)
    assert judge(fault, report, untouched=True).right, report


@pytest.mark.parametrize("model", HEALTHY, ids=lambda model: model.name)
def test_a_healthy_model_passes(model: Question) -> None:
    report = checked(model)
    assert judge(model, report, untouched=True).right, report
    assert report.gradient_norms


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_the_mode_of_the_caller_does_not_matter(mode: Callable[[], Any]) -> None:
    module = Tower(Block()).train()
    with mode():
        before = state_of(module)
        report = check_gradients(module, rows(3, 6), squares)
        assert state_of(module) == before
    assert report.passed, report


def test_a_probe_born_in_inference_mode_is_accepted() -> None:
    with torch.inference_mode():
        probe = rows(3, 6).clone()
    assert check_gradients(Tower(Block()), probe, squares).passed


def test_the_module_trains_normally_afterwards() -> None:
    module = Tower(Block()).train()
    check_gradients(module, rows(3, 6), squares)
    squares(module(rows(3, 6))).mean().backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in module.parameters())


def test_gradients_that_were_there_stay() -> None:
    module = Tower(Block())
    squares(module(rows(3, 6))).mean().backward()
    kept = {name: present(p.grad).clone() for name, p in module.named_parameters()}
    check_gradients(module, rows(3, 6), squares)
    assert all(
        torch.equal(present(p.grad), present(kept[name])) for name, p in module.named_parameters()
    )


def test_a_parameter_outside_the_module_keeps_its_gradient() -> None:
    scale = nn.Parameter(torch.ones(()))
    report = check_gradients(Tower(Block()), rows(3, 6), lambda output: squares(output * scale))
    assert report.passed, report
    assert "unregistered" in report.codes
    assert scale.grad is None


def test_a_failed_test_raises_its_report() -> None:
    module = Tower(Block())
    report = check_gradients(module, rows(3, 6), lambda output: output.detach().sum(1))
    with pytest.raises(GradientFlowError, match=r"graph-cut.*[.]detach[(][)]"):
        report.raise_if_failed()
    check_gradients(module, rows(3, 6), squares).raise_if_failed()


def test_a_predicate_selects_what_is_trained() -> None:
    report = check_gradients(
        Tower(Block()), rows(3, 6), squares, trainable=lambda name, p: p.dim() == 2
    )
    assert report.passed, report
    assert all(name.endswith("weight") for name in report.gradient_norms)


def test_checkpointed_blocks_give_the_same_gradients() -> None:
    module = Tower(Block())
    plain = check_gradients(module, rows(3, 6), squares)
    recomputed = check_gradients(module, rows(3, 6), squares, checkpointing=True)
    assert recomputed.passed, recomputed
    assert recomputed.gradient_norms == pytest.approx(plain.gradient_norms)


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(ConfigError, match="function"):
        check_gradients(lambda x: x, rows(3, 6), squares)  # type: ignore[arg-type]


def test_serving_under_no_grad_can_keep_tensors() -> None:
    fault = next(fault for fault in FAULTS if fault.name == "cache_on_the_class")
    case = fault.make()
    report = check_gradients(case.module, case.probe, squares, serve_mode="no_grad")
    assert report.passed, report


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_healthy_model_passes_on_a_gpu(dtype: torch.dtype) -> None:
    device = torch.device("cuda")
    report = check_gradients(
        Tower(Block()).to(device),
        rows(3, 6).to(device),
        squares,
        precision=Precision(device, dtype),
    )
    assert report.passed, report


class Plotted(nn.Linear):
    """Keeps what it gave, for somebody to look at."""

    def forward(self, x: Tensor) -> Tensor:
        self.given = super().forward(x)
        return self.given


@pytest.mark.parametrize(
    ("make", "place", "advice"),
    [
        (
            lambda: Plotted(6, 3),
            "attribute given",
            "earlier forward's graph: store `.detach()`ed values",
        ),
        (
            lambda: nn.utils.weight_norm(nn.Linear(6, 3)),
            "attribute weight",
            "parametrizations.weight_norm",
        ),
    ],
    ids=["kept", "weight norm"],
)
@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_what_cannot_be_copied_is_named_with_its_own_remedy(make, place, advice) -> None:
    module = make()
    module(torch.ones(1, 6))
    finding = check_gradients(module, rows(3, 6), squares).findings[0]
    assert finding.code == "replica"
    assert place in present(finding.module)
    assert advice in finding.message
