"""The one place that switches modes: grad, inference mode, autocast, eval and train.

A phase is one synchronous call that sets every mode afresh. It assumes nothing about the caller's
modes, and holds none across a `yield` or an `await`, where unrelated code would run in it.
`torch.enable_grad()` alone cannot undo `torch.inference_mode()`: inside both, autograd reports
that it is on, but records nothing. This module knows no task and no adapter.
"""

import functools
import inspect
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from gradient_check.phases.errors import ModeError
from gradient_check.phases.precision import Precision, ServeMode

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=nn.Module)
_thread = threading.local()


@dataclass(frozen=True)
class ThreadModes:
    """The settings of autograd and autocast on the calling thread."""

    grad: bool
    inference: bool
    autocast: bool

    @classmethod
    def current(cls) -> "ThreadModes":
        """Return the present settings."""
        return cls(
            grad=torch.is_grad_enabled(),
            inference=torch.is_inference_mode_enabled(),
            autocast=any(torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda")),
        )


def run_inference(
    function: Callable[Concatenate[M, P], T],
    module: M,
    precision: Precision,
    serve_mode: ServeMode,
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Call `function(module, *args)` in the inference phase: eval mode, no graph.

    Tensors in the result are copied out of inference mode, so that no inference tensor outlives
    the call.

    Raises:
        ModeError: `function` is or returns a coroutine or generator, whose body would run after
            the modes were closed.
    """
    _refuse_suspendable(function)
    if _trains_somewhere(module):
        module.eval()
    with ExitStack() as modes:
        modes.enter_context(torch.inference_mode(serve_mode == "inference_mode"))
        modes.enter_context(torch.no_grad())
        modes.enter_context(casting(precision))
        result = _refuse_suspended(function(module, *args, **kwargs), function)
    return run_setup(_released, result)


def run_adaptation(
    function: Callable[Concatenate[M, P], T],
    module: M,
    training: Collection[str],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Call `function(module, *args)` in the adaptation phase: gradients on.

    Exactly the modules named in `training` are in training mode. Inference tensors among the
    arguments are copied into normal ones, and the result is detached. Autocast is off: the
    function opens `casting` for its forward and closes it before its backward.

    Raises:
        ModeError: gradients could not flow through `module`, or `function` is or returns a
            coroutine or generator.
    """
    _refuse_suspendable(function)
    _refuse_untrainable(module)
    if any(part.training is not (name in training) for name, part in module.named_modules()):
        _put_in_training(module, training)
    with ExitStack() as modes:
        modes.enter_context(torch.inference_mode(False))
        modes.enter_context(torch.enable_grad())
        modes.enter_context(casting(None))
        args, kwargs = tree_map_only(Tensor, _normal, (args, kwargs))
        result = _refuse_suspended(function(module, *args, **kwargs), function)
    return cast(T, tree_map_only(Tensor, Tensor.detach, result))


def run_with_graph(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` with gradients on, inside a part of an adaptation phase that has them off."""
    with torch.enable_grad():
        return function(*args, **kwargs)


def _trains_somewhere(module: nn.Module) -> bool:
    waiting = [module]  # takes 40 µs for MiniLM, `module.modules()` 100; a prediction takes 6 ms
    while waiting and not waiting[-1].training:
        waiting += [inner for inner in waiting.pop()._modules.values() if inner is not None]
    return bool(waiting)


def _put_in_training(module: nn.Module, training: Collection[str]) -> None:
    module.eval()
    for name, part in module.named_modules():
        part.training = name in training


def run_setup(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` to make tensors that outlive every phase: no mode is on."""
    with torch.inference_mode(False), torch.no_grad(), casting(None):
        return function(*args, **kwargs)


@contextmanager
def casting(precision: Precision | None) -> Iterator[None]:
    """Set autocast as `precision` says, or off; for one forward, never around a `yield`.

    The cast cache is off: all threads share it, and it hides an optimizer's in-place updates from
    the next forward. Regions that the code inside leaves open are closed, and the casts that its
    own regions cached are dropped: PyTorch would keep them while an outer region is open.
    """
    depth = _nesting()
    try:
        with _autocast("cpu", precision), _autocast("cuda", precision):
            yield
    finally:
        _close_regions(depth)
        torch.clear_autocast_cache()


def _autocast(kind: str, precision: Precision | None) -> AbstractContextManager[Any]:
    if precision is None or not precision.autocasts or precision.device.type != kind:
        return torch.autocast(kind, enabled=False, cache_enabled=False)
    return torch.autocast(kind, dtype=precision.compute, cache_enabled=False)


def put_in_eval(module: nn.Module) -> None:
    """Put a whole module in eval mode; it stays there unless it is a replica that trains."""
    if _trains_somewhere(module):
        module.eval()


def pass_through_training(module: nn.Module) -> None:
    """Switch a whole module to training mode and back, as training loops do between evaluations."""
    module.train()
    module.eval()


def use_device(device: torch.device) -> None:
    """Make a CUDA device this thread's current one, now and at each `scrub_thread`.

    Work is queued on its default stream; no other stream is waited for.
    """
    if device.type == "cuda":
        _thread.device = device.index or 0
        torch.cuda.set_device(device)


def scrub_thread() -> None:
    """Reset this thread's modes, devices and stream after earlier work."""
    device = getattr(_thread, "device", None)
    if device is not None:
        _take_device(device)
    # the runner creates tensors without a named device there
    if torch.get_default_device().type != "cpu":
        torch.set_default_device(None)
    torch.set_grad_enabled(True)
    for kind in ("cpu", "cuda"):
        torch.set_autocast_enabled(kind, False)
    _close_regions(0)
    torch.clear_autocast_cache()


def _take_device(number: int) -> None:
    if torch.cuda.current_device() != number:
        torch.cuda.set_device(number)
    stream = torch.cuda.default_stream(number)
    if torch.cuda.current_stream(number) != stream:
        torch.cuda.set_stream(stream)


def _nesting() -> int:
    """Return the number of open autocast regions on this thread."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _close_regions(depth: int) -> None:
    """Count open regions down to `depth`; PyTorch never clears the cast cache in a leaked one."""
    for _ in range(_nesting() - depth):
        torch.autocast_decrement_nesting()


def under_inference_mode(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` like a decorated predictor; the self-test's phases must work there too."""
    with torch.inference_mode():
        return function(*args, **kwargs)


def unsuspendable(function: Callable[..., object]) -> bool:
    """Return whether a call of `function` runs its whole body: no coroutine, no generator."""
    innermost = inspect.unwrap(function)
    while isinstance(innermost, functools.partial):
        innermost = innermost.func
    return not (
        inspect.iscoroutinefunction(innermost)
        or inspect.isasyncgenfunction(innermost)
        or inspect.isgeneratorfunction(innermost)
    )


def _refuse_suspendable(function: Callable[..., object]) -> None:
    if not unsuspendable(function):
        raise ModeError(
            f"{function!r} is a coroutine or generator function; its body would run after the "
            "modes were closed. Pass a plain function, and yield or await outside it."
        )


def _refuse_suspended(result: T, function: Callable[..., object]) -> T:
    if inspect.iscoroutine(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        result.close() if not inspect.isasyncgen(result) else None
        raise ModeError(
            f"{function!r} returned a {type(result).__name__}; its body would run after the modes "
            "were closed. Return values, and yield or await outside."
        )
    return result


def _refuse_untrainable(module: nn.Module) -> None:
    trainable = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    if not trainable:
        raise ModeError(
            "no parameter of the module requires grad, so no gradient could flow. Make a training "
            "replica, whose trainable tensors do."
        )
    for name, parameter in trainable:
        if parameter.is_inference():
            raise ModeError(
                f"parameter {name} was born in inference mode, so no gradient could flow. Build or "
                "load the module outside it, or heal it (gradient_check.phases.census.heal)."
            )


def _normal(tensor: Tensor) -> Tensor:
    return tensor.clone() if tensor.is_inference() else tensor


def _released(result: T) -> T:
    return cast(T, tree_map_only(Tensor, lambda t: _normal(t).detach(), result))
