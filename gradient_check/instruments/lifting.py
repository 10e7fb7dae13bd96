"""Runs a forward with its own 16-bit parts in float32.

A module that is checked in float32 may cast to 16 bits inside. Differences prove little there;
without the casts they do, and the two gradients must agree except for rounding.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from gradient_check.instruments.graph import nodes
from gradient_check.instruments.recording import name_of
from gradient_check.phases.modes import casting

SIXTEEN_BIT = (torch.bfloat16, torch.float16)
_CASTS = ("bfloat16", "half")


class Lifted(TorchFunctionMode):
    """Uses float32 where calls ask for or get 16 bits, and no autocast."""

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 - PyTorch's protocol
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Run one call in float32."""
        name = name_of(func)
        with casting(None):
            if name in _CASTS:
                return args[0].float()
            args, kwargs = tree_map_only(torch.dtype, _lifted, (args, kwargs or {}))
            writes = name.endswith(("_", "__set__", "__setitem__"))
            args, kwargs = (args, kwargs) if writes else _raised((args, kwargs))
            return func(*args, **kwargs)


def has_sixteen_bits(losses: Tensor) -> bool:
    """Return whether a gradient passes through 16 bits on its way."""
    metadata = (m for node in nodes(losses.grad_fn) for m in getattr(node, "_input_metadata", ()))
    return any(each.dtype in SIXTEEN_BIT for each in metadata)


@contextmanager
def in_float32(function: Any) -> Iterator[None]:  # noqa: ANN401 - a class of autograd.Function
    """Let a custom function compute in float32, forward and backward, for a while.

    Its results stay in 16 bits for the rest of the forward.
    """
    kept = {name: vars(function).get(name) for name in ("forward", "setup_context", "backward")}
    forward, setup, backward = (getattr(function, name) for name in kept)

    def lifted_forward(*args: Any) -> Any:  # noqa: ANN401
        dtypes = [t.dtype for t in args if isinstance(t, Tensor) and t.dtype in SIXTEEN_BIT]
        result = forward(*_raised(args))
        given = dtypes[0] if dtypes else torch.float32
        return tree_map_only(Tensor, lambda t: t.to(given) if _is_float32(t) else t, result)

    def lifted_setup(ctx: Any, inputs: Any, output: Any) -> Any:  # noqa: ANN401
        return setup(ctx, _raised(inputs), _raised(output))

    def lifted_backward(ctx: Any, *gradients: Any) -> Any:  # noqa: ANN401
        return backward(ctx, *_raised(gradients))

    function.forward, function.backward = map(staticmethod, (lifted_forward, lifted_backward))
    if setup is not torch.autograd.Function.setup_context:
        function.setup_context = staticmethod(lifted_setup)
    try:
        yield
    finally:
        _put_back(function, kept)


def _put_back(function: Any, kept: Mapping[str, Any]) -> None:  # noqa: ANN401 - a class
    for name, value in kept.items():
        if value is not None:
            setattr(function, name, value)
        elif name in vars(function):
            delattr(function, name)


def _lifted(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in SIXTEEN_BIT else dtype


def _raised(values: Any) -> Any:  # noqa: ANN401 - any pytree
    return tree_map_only(Tensor, lambda t: t.float() if t.dtype in SIXTEEN_BIT else t, values)


def _is_float32(tensor: Tensor) -> bool:
    return tensor.dtype is torch.float32
