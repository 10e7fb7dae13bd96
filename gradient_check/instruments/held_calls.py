"""Holds the values that a forward deliberately keeps from its gradient at those of one point.

With a detached value held still, autograd's gradient is the exact slope of the loss, if nothing
else is wrong. So differences under `HeldCalls` prove the effect of a stop-gradient or a
straight-through estimator.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten

from gradient_check.instruments.crossings import Crossings
from gradient_check.instruments.recording import without_cut

_NEAR = 1e-4
_MOSTLY = 0.9


class HeldCalls(TorchFunctionMode):
    """Returns the results of the first forward for chosen calls of later ones.

    Args:
        constant: indices of calls, counted as the recorder counts them; their results without a
            graph are held.
        linear: indices of calls whose results continue along their own gradient.
        soft: indices of hard `gumbel_softmax` calls, which continue as their soft samples.
        functions: classes of `torch.autograd.Function`; step functions among them continue along
            their backward.
        crossings: of declared blocks, some of which start at a call.
        skip: indices of calls to leave out (a detach, `.data`, a hook).
    """

    def __init__(  # noqa: PLR0913 - a set of calls for each way of holding one
        self,
        constant: Collection[int] = (),
        linear: Collection[int] = (),
        soft: Collection[int] = (),
        functions: Collection[type[torch.autograd.Function]] = (),
        crossings: Crossings | None = None,
        skip: Collection[int] = (),
    ) -> None:
        super().__init__()
        self.constant = frozenset(constant)
        self.linear = frozenset(linear)
        self.soft = frozenset(soft)
        self.functions = tuple(functions)
        self.crossings = crossings
        self.skip = frozenset(skip)
        self.kept: dict[object, Any] = {}
        self.count = 0
        self.applied = 0
        self.paused = False

    def __enter__(self) -> Any:  # noqa: ANN401 - PyTorch's protocol
        self.count = self.applied = 0
        if self.crossings is not None:
            self.crossings.begin()
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 - PyTorch's protocol
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Run one call, or return its earlier result."""
        kwargs = kwargs or {}
        if self.paused:
            return func(*args, **kwargs)
        index, self.count = self.count, self.count + 1
        if index in self.skip:
            return without_cut(func, args, kwargs)
        if self.crossings is not None and index in self.crossings.sites.calls:
            return _crossed(self.crossings, index, func, args, kwargs)
        if self.crossings is not None and index in self.crossings.sites.hooks:
            handle = func(*args, **kwargs)
            self.crossings.hook(args[0], self.crossings.sites.hooks[index])
            return handle
        if index in self.constant:
            return self._held(index, func, args, kwargs)
        if index in self.linear:
            return self._gone_on(index, func, args, kwargs)
        if index in self.soft and kwargs.get("hard"):
            state = torch.get_rng_state()
            hard = func(*args, **kwargs)
            torch.set_rng_state(state)
            soft = func(*args, **{**kwargs, "hard": False})
            return soft + self.kept.setdefault(index, (hard - soft).detach())
        return func(*args, **kwargs)

    def _held(
        self, index: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:  # noqa: ANN401
        """Return the first result, except tensors of it that have a graph: topk's values."""
        result = None
        if index not in self.kept:
            result = func(*args, **kwargs)
            self.kept[index] = _copied(result), [_has_graph(each) for each in tree_leaves(result)]
        first, flows = self.kept[index]
        if not any(flows):
            return _given_again(first, kwargs.get("out"))
        leaves, structure = tree_flatten(func(*args, **kwargs) if result is None else result)
        held = zip(leaves, tree_leaves(_copied(first)), flows, strict=True)
        return tree_unflatten([new if flow else old for new, old, flow in held], structure)

    @contextmanager
    def replacing(self) -> Iterator[None]:
        """Replace the step functions' `apply` for a while."""
        for function in self.functions:
            function.apply = staticmethod(self._applying(function.apply))  # type: ignore[method-assign]
        try:
            yield
        finally:
            for function in self.functions:
                del function.apply

    def _applying(self, apply: Callable[..., Any]) -> Callable[..., Any]:
        def held(*args: Any) -> Any:  # noqa: ANN401 - a custom function takes and gives anything
            key, self.applied = ("function", self.applied), self.applied + 1
            began = self.count
            if key not in self.kept:
                apply(*args)  # run only to count the calls inside
            self.count = began + self.kept.setdefault(("calls", key), self.count - began)
            self.paused = True
            try:
                if key not in self.kept and not is_step(apply, args):
                    self.kept[key] = None
                return self._gone_on(key, apply, args, {})
            finally:
                self.paused = False

        return held

    def _gone_on(
        self, key: object, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:  # noqa: ANN401
        """Return the first result plus its gradient times the change of the first argument."""
        if key not in self.kept:
            self.kept[key] = _slope_of(func, args, kwargs)
        first = self.kept[key]
        if first is None:
            return func(*args, **kwargs)
        origin, result, slope = first
        return result + slope * (args[0] - origin)


def _crossed(
    crossings: Crossings,
    index: int,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:  # noqa: ANN401
    """Run a call of a declared line, whose arguments from elsewhere enter a block."""
    pattern = crossings.sites.calls[index]
    args, kwargs = tree_map_only(Tensor, lambda t: crossings.enter(t, pattern), (args, kwargs))
    result = func(*args, **kwargs)
    crossings.leave(result, pattern)
    return result


def _slope_of(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return the argument, the result and the gradient of a function of one tensor's entries."""
    if not args or not isinstance(args[0], Tensor) or not args[0].is_floating_point():
        return None
    origin = args[0].detach().clone().requires_grad_()
    result = func(origin, *args[1:], **kwargs)
    if not isinstance(result, Tensor) or result.shape != origin.shape or not result.requires_grad:
        return None
    (slope,) = torch.autograd.grad(result.sum(), origin, allow_unused=True)
    return None if slope is None else (origin.detach(), result.detach(), slope)


def is_step(apply: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Return whether small changes of the first argument leave most of the results unchanged."""
    if not args or not isinstance(args[0], Tensor) or not args[0].is_floating_point():
        return False
    origin = args[0].detach()
    before = apply(origin, *args[1:])
    after = apply(origin * (1 + _NEAR) + _NEAR * 1e-2, *args[1:])
    if not isinstance(before, Tensor) or before.numel() == 0:
        return False
    return float((before == after).float().mean()) >= _MOSTLY


def _has_graph(value: object) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _given_again(result: Any, out: Any) -> Any:  # noqa: ANN401
    """Return a copy of a kept result, in the tensor that the call writes to, if any."""
    if isinstance(out, Tensor):
        return out.copy_(result)
    return _copied(result)


def _copied(result: Any) -> Any:  # noqa: ANN401
    if not any(isinstance(leaf, Tensor) for leaf in tree_leaves(result)):
        return result
    return tree_map_only(Tensor, lambda t: t.detach().clone(), result)
