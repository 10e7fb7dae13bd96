"""A phase sets every mode afresh, whatever is on round it, and leaves none behind."""

import asyncio
import functools
import itertools
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import nn

from gradient_check.phases.errors import ModeError
from gradient_check.phases.modes import (
    ThreadModes,
    casting,
    run_adaptation,
    run_inference,
    run_setup,
    scrub_thread,
    under_inference_mode,
    unsuspendable,
)
from gradient_check.phases.precision import Precision
from gradient_check.tests.models import Cancelled
from gradient_check.tests.present import present
from gradient_check.tests.states import thread_modes

CPU = torch.device("cpu")
FP32 = Precision(CPU)
BF16 = Precision(CPU, torch.bfloat16)
FP16 = Precision(CPU, torch.float16)

AMBIENT: dict[str, Any] = {
    "inference_mode": torch.inference_mode,
    "inference_mode(False)": lambda: torch.inference_mode(False),
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast off": lambda: torch.autocast("cpu", enabled=False),
}
AMBIENTS = [
    pair for size in range(3) for pair in itertools.permutations(AMBIENT, size)
]  # nothing, each alone, and each inside each other


@pytest.fixture(params=AMBIENTS, ids=" in ".join)
def ambient(request):
    """Modes that some caller left on."""
    with ExitStack() as modes:
        for name in request.param:
            modes.enter_context(AMBIENT[name]())
        yield


def net():
    return run_setup(lambda: nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)))


def modes_inside(module, *_):
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"),
        torch.is_autocast_enabled("cuda"),
        [part.training for part in module.modules()],
    )


PHASES = {
    "inference": lambda f, *a: run_inference(f, net(), FP32, "inference_mode", *a),
    "inference in bf16": lambda f, *a: run_inference(f, net(), BF16, "inference_mode", *a),
    "no_grad": lambda f, *a: run_inference(f, net(), FP32, "no_grad", *a),
    "no_grad in fp16": lambda f, *a: run_inference(f, net(), FP16, "no_grad", *a),
    "adaptation": lambda f, *a: run_adaptation(f, net(), {"", "2"}, *a),
}
INSIDE = {
    "inference": (False, True, False, False, [False] * 4),
    "inference in bf16": (False, True, torch.bfloat16, False, [False] * 4),
    "no_grad": (False, False, False, False, [False] * 4),
    "no_grad in fp16": (False, False, torch.float16, False, [False] * 4),
    "adaptation": (True, False, False, False, [True, False, False, True]),
}


@pytest.mark.parametrize("phase", PHASES)
def test_inside_a_phase_the_modes_are_its_own(ambient, phase):
    assert PHASES[phase](modes_inside) == INSIDE[phase]


@pytest.mark.parametrize("phase", PHASES)
def test_after_a_phase_the_modes_are_the_callers_again(ambient, phase):
    before = thread_modes()
    PHASES[phase](modes_inside)
    assert thread_modes() == before


@pytest.mark.parametrize("error", [ValueError, Cancelled])
@pytest.mark.parametrize("phase", PHASES)
def test_after_a_raise_too(ambient, phase, error):
    def failing(module):
        raise error

    before = thread_modes()
    with pytest.raises(error):
        PHASES[phase](failing)
    assert thread_modes() == before


def test_setup_has_no_mode_on_whatever_is_round_it(ambient):
    before = thread_modes()
    tensor, modes = run_setup(lambda: (torch.ones(2), ThreadModes.current()))
    assert modes == ThreadModes(grad=False, inference=False, autocast=False)
    assert not tensor.is_inference()
    assert thread_modes() == before


def test_gradients_flow_in_the_adaptation_phase_whatever_is_round_it(ambient):
    module = run_setup(nn.Linear, 2, 1)

    def step(module, x):
        module(x).sum().backward()

    run_adaptation(step, module, {""}, torch.ones(3, 2))
    assert present(module.weight.grad).tolist() == [[3.0, 3.0]]
    assert not present(module.weight.grad).is_inference()


def test_nothing_born_in_inference_outlives_it(ambient):
    module = run_setup(nn.Linear, 2, 1)

    def predict(module, x):
        return {"out": [module(x)], "same": x}

    result = run_inference(predict, module, FP32, "inference_mode", torch.ones(3, 2))
    with torch.inference_mode(False), torch.enable_grad():
        for tensor in (result["out"][0], result["same"]):
            assert not tensor.is_inference()
            assert not tensor.requires_grad
            (tensor * torch.ones(1, requires_grad=True)).sum().backward()


@pytest.mark.parametrize("serve_mode", ["inference_mode", "no_grad"])
def test_inference_makes_no_graph(serve_mode):
    seen = []

    def predict(module, x):
        out = module(x)
        seen.append((out.requires_grad, out.is_inference()))
        return out

    out = run_inference(predict, nn.Linear(2, 1), FP32, serve_mode, torch.ones(3, 2))
    assert seen == [(False, serve_mode == "inference_mode")]
    assert out.grad_fn is None


def test_inference_puts_a_module_in_training_back_to_eval():
    module = net().train()
    assert run_inference(modes_inside, module, FP32, "no_grad")[-1] == [False] * 4
    module[2].training = True
    assert run_inference(modes_inside, module, FP32, "no_grad")[-1] == [False] * 4


def test_adaptation_sets_training_mode_module_by_module():
    module = net().train()
    assert run_adaptation(modes_inside, module, {"1"})[-1] == [False, False, True, False]
    assert run_adaptation(modes_inside, module, frozenset())[-1] == [False] * 4


def test_inference_tensors_among_the_arguments_are_copied():
    with torch.inference_mode():
        ids, x = torch.tensor([1, 0]), torch.ones(2, 2)
    normal = torch.ones(2, 2)
    seen: list[Any] = []

    def step(module, batch, *, also):
        tensors = [batch["ids"], *batch["rows"], also]
        seen.extend(t.is_inference() for t in tensors)
        nn.functional.cross_entropy(module(batch["rows"][0]), batch["ids"]).backward()
        return [batch["rows"][1] is normal]

    module = nn.Linear(2, 2)
    result = run_adaptation(step, module, {""}, {"ids": ids, "rows": [x, normal]}, also=x)
    assert seen == [False] * 4
    assert result == [True]  # a normal tensor is passed as it is
    assert module.weight.grad is not None


def test_what_an_adaptation_returns_is_detached():
    module = nn.Linear(2, 1)
    out = run_adaptation(lambda m, x: {"loss": m(x), "n": 3}, module, {""}, torch.ones(1, 2))
    assert out["n"] == 3
    assert out["loss"].grad_fn is None
    assert not out["loss"].requires_grad


def test_the_cast_cache_is_off_in_every_region():
    with casting(BF16):
        assert not torch.is_autocast_cache_enabled()
    with casting(None):
        assert not torch.is_autocast_cache_enabled()
    assert torch.is_autocast_cache_enabled()


def test_an_update_inside_one_cast_region_is_seen_by_the_next_forward():
    weight = nn.Parameter(torch.ones(1, 1))
    x = torch.ones(1, 1)
    with casting(BF16):
        before = nn.functional.linear(x, weight)
        with torch.no_grad():
            weight.mul_(2)
        assert nn.functional.linear(x, weight).item() == 2 * before.item()


def test_what_a_region_of_the_functions_own_cached_is_dropped():
    """As PyTorch does where no region is open outside, and does not where setup holds one."""
    layer = nn.Linear(2, 2)
    region = torch.autocast("cpu", torch.bfloat16)  # made where the cache is on
    with casting(None):
        with casting(FP32), region:
            before = layer(torch.ones(1, 2))
        with torch.no_grad():
            layer.weight.mul_(3)
        with casting(FP32), region:
            assert not torch.equal(layer(torch.ones(1, 2)), before)


def test_casting_inside_an_ambient_autocast_is_as_precision_has_it():
    with torch.autocast("cpu", torch.float16), casting(FP32):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32
    with torch.autocast("cpu", torch.float16), casting(BF16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16


async def coroutine(module):
    return 1


async def async_generator(module):
    yield 1


def generator(module):
    yield 1


class Callable:
    def __call__(self, module):
        yield 1

    def method(self, module):
        yield 1


SUSPENDABLE = {
    "coroutine": coroutine,
    "async generator": async_generator,
    "generator": generator,
    "method": Callable().method,
    "callable object": Callable(),
    "partial": functools.partial(generator),
    "decorated coroutine": torch.inference_mode()(coroutine),
    "decorated generator": torch.no_grad()(generator),
    "lambda that returns a coroutine": lambda module: coroutine(module),
    "lambda that returns a generator": lambda module: (n for n in [1]),
    "lambda that returns an async generator": lambda module: async_generator(module),
}


@pytest.mark.parametrize("name", SUSPENDABLE)
@pytest.mark.parametrize("phase", PHASES)
def test_work_that_would_go_on_after_the_phase_is_refused(phase, name):
    before = thread_modes()
    with pytest.raises(ModeError, match="after the modes were closed"):
        PHASES[phase](SUSPENDABLE[name])
    assert thread_modes() == before


def test_a_function_is_told_from_one_that_suspends():
    assert unsuspendable(modes_inside)
    assert unsuspendable(functools.partial(modes_inside))
    assert not unsuspendable(torch.inference_mode()(coroutine))
    assert not unsuspendable(functools.partial(functools.partial(generator)))


def test_adaptation_without_a_trainable_parameter_is_refused():
    module = nn.Linear(2, 1).requires_grad_(False)
    with pytest.raises(ModeError, match="no parameter of the module requires grad"):
        run_adaptation(modes_inside, module, {""})


def test_adaptation_of_a_parameter_born_in_inference_mode_is_refused_by_name():
    module = nn.Sequential(nn.Linear(2, 2), under_inference_mode(nn.Linear, 2, 2))
    with pytest.raises(ModeError, match=r"parameter 1\.weight was born in inference mode"):
        run_adaptation(modes_inside, module, {""})


def test_under_inference_mode_is_an_ambient_inference_mode():
    assert under_inference_mode(torch.is_inference_mode_enabled)
    assert not torch.is_inference_mode_enabled()


def leave_grad_off():
    torch.set_grad_enabled(False)


def leave_autocast_on():
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_enabled("cuda", True)


def leave_nesting():
    for _ in range(3):
        torch.autocast_increment_nesting()


def leave_a_held_no_grad():
    torch.no_grad().__enter__()


def leave_an_interrupted_autocast():
    torch.autocast("cpu", torch.bfloat16).__enter__()


def leave_a_default_device():
    torch.set_default_device("meta")


@pytest.mark.parametrize(
    "leave",
    [
        leave_a_default_device,
        leave_grad_off,
        leave_autocast_on,
        leave_nesting,
        leave_a_held_no_grad,
        leave_an_interrupted_autocast,
    ],
)
def test_scrubbing_heals_a_thread(leave):
    before = thread_modes()
    leave()
    assert thread_modes() != before
    scrub_thread()
    assert thread_modes() == before


def test_scrubbing_a_clean_thread_changes_nothing():
    before = thread_modes()
    scrub_thread()
    scrub_thread()
    assert thread_modes() == before


def test_after_scrubbing_the_cast_cache_is_cleared_at_the_end_of_a_region_again():
    leave_nesting()
    scrub_thread()
    weight = nn.Parameter(torch.ones(1, 1))
    x = torch.ones(1, 1)
    with torch.autocast("cpu", torch.bfloat16):
        nn.functional.linear(x, weight)
    with torch.no_grad():
        weight.mul_(2)
    with torch.autocast("cpu", torch.bfloat16):
        assert nn.functional.linear(x, weight).item() == 2.0


def test_enabling_grad_inside_inference_mode_records_nothing_though_it_says_so():
    """The trap that the README shows; PyTorch's behaviour, which the phases rest on."""
    weight = torch.ones(1, requires_grad=True)
    with torch.inference_mode(), torch.enable_grad():
        assert torch.is_grad_enabled()
        loss = (weight * 2).sum()
    assert not loss.requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        loss.backward()


def test_decorating_a_coroutine_with_inference_mode_does_nothing():
    @torch.inference_mode()
    async def run():
        return torch.is_inference_mode_enabled()

    assert asyncio.run(run()) is False


def test_a_phase_closes_a_region_that_its_function_left_open():
    before = thread_modes()
    run_inference(
        lambda _: torch.autocast("cpu", torch.bfloat16).__enter__() and None,
        nn.Linear(1, 1),
        Precision(torch.device("cpu")),
        "no_grad",
    )
    assert thread_modes() == before


@pytest.mark.parametrize("precision", [None, FP32, BF16], ids=str)
def test_the_cast_cache_is_off_inside_casting_and_as_before_after_it(precision):
    before = torch.is_autocast_cache_enabled()
    with casting(precision):
        assert not torch.is_autocast_cache_enabled()
    assert torch.is_autocast_cache_enabled() is before


def test_what_is_refused_is_refused_before_the_module_is_touched():
    def suspends(module):
        yield

    module = nn.Sequential(nn.Linear(2, 2), nn.Dropout()).train()
    with pytest.raises(ModeError, match="is a coroutine or generator function"):
        run_inference(suspends, module, FP32, "no_grad")
    with pytest.raises(ModeError, match="is a coroutine or generator function"):
        run_adaptation(suspends, module, ())
    assert all(part.training for part in module.modules())
