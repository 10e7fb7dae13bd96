"""The loss under test, called the same way every time and watched while it runs.

This module knows the caller's loss and probe, but no replicas or gradients.
"""

import random
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from gradient_check.instruments.loss_forms import takes_module, takes_targets
from gradient_check.phases.modes import ThreadModes

Observer = Callable[[Tensor], None]


class LossShapeError(Exception):
    """The loss returned something that cannot be minimised."""


class ProbeLoss:
    """`(module, probe) -> losses`, for any of the three forms of the caller's loss.

    Each call gets a fresh copy of the probe, so a forward that writes to its input does no harm.

    Attributes:
        observer: called with the losses while their graph exists.
        recorder: a context that surrounds each call.
        lifted: a context inside that one, for a forward without 16-bit parts.
        added: replaces the computed losses by the intended ones.
        seed: seeds Python's and NumPy's generators before each call, unless None.
        finished: whether the last call returned losses.
        shape: shape of the last call's losses.
        tampering: changes to modes, flags or seeds that a call did not undo.
    """

    def __init__(self, loss: Callable[..., Any], probe: Any) -> None:  # noqa: ANN401 - any pytree
        self.loss = loss
        self.takes_module = takes_module(loss)
        self.takes_targets = takes_targets(loss)
        self.rows = {leaf.shape[0] for leaf in tree_leaves(_plain(probe)) if _has_rows(leaf)}
        self.observer: Observer | None = None
        self.recorder: AbstractContextManager[Any] | None = None
        self.lifted: AbstractContextManager[Any] | None = None
        self.added: Callable[[Tensor], Tensor] | None = None
        self.seed: int | None = None
        self.finished = False
        self.shape: tuple[int, ...] = ()
        self.tampering: dict[str, str] = {}

    def __call__(self, module: nn.Module, probe: Any) -> Tensor:  # noqa: ANN401 - any pytree
        """Run the loss once, and return the losses.

        Raises:
            LossShapeError: the loss returned something that cannot be minimised.
        """
        self.finished = False
        probe = tree_map_only(Tensor, _copied, _plain(probe))
        if self.seed is not None:
            _seed_python(self.seed)
        before = _state()
        try:
            with self.recorder or nullcontext(), self.lifted or nullcontext():
                losses = self._losses(module, probe)
        finally:
            self._note_tampering(before)
        self.finished = True
        checked = _checked(losses)
        self.shape = tuple(checked.shape)
        checked = checked if self.added is None else self.added(checked)
        if self.observer is not None:
            self.observer(checked)
        return checked

    @property
    def shape_fits(self) -> bool:
        """Whether the losses were a scalar or one for each example."""
        if not self.rows or self.shape in ((), (1,)):
            return len(self.shape) <= 1
        return len(self.shape) == 1 and self.shape[0] in self.rows

    def _losses(self, module: nn.Module, probe: Any) -> Any:  # noqa: ANN401
        if self.takes_module:
            return self.loss(module, probe)
        if self.takes_targets:
            inputs, targets = probe
            return self.loss(call(module, inputs), targets)
        return self.loss(call(module, probe))

    def _note_tampering(self, before: dict[str, object]) -> None:
        for name, value in _state().items():
            if value != before[name]:
                self.tampering[name] = f"{name} was {before[name]} and is {value}"
        default = before["default dtype"]
        if isinstance(default, torch.dtype) and torch.get_default_dtype() is not default:
            torch.set_default_dtype(default)


def _checked(losses: object) -> Tensor:
    if not isinstance(losses, Tensor):
        raise LossShapeError(f"the loss is a {type(losses).__name__}, not a tensor")
    if losses.is_complex() or losses.numel() == 0:
        raise LossShapeError(f"the loss is {losses.dtype} of shape {tuple(losses.shape)}")
    return losses


def call(module: nn.Module, probe: Any) -> Any:  # noqa: ANN401 - any pytree
    """Call the module on the probe; a tuple gives positional arguments, a mapping keyword ones."""
    if isinstance(probe, tuple):
        return module(*probe)
    if isinstance(probe, Mapping):
        return module(**probe)
    return module(probe)


def _plain(probe: Any) -> Any:  # noqa: ANN401 - any pytree
    is_mapping = isinstance(probe, Mapping) and not isinstance(probe, dict)
    return dict(probe) if is_mapping else probe


def _has_rows(leaf: object) -> bool:
    return isinstance(leaf, Tensor) and leaf.dim() > 0


def _copied(tensor: Tensor) -> Tensor:
    copy = tensor.detach().clone()
    return copy.requires_grad_() if tensor.requires_grad else copy


def _state() -> dict[str, object]:
    modes = ThreadModes.current()
    return {
        "grad mode": modes.grad,
        "inference mode": modes.inference,
        "autocast": modes.autocast,
        "default dtype": torch.get_default_dtype(),
        "the random seed": torch.default_generator.initial_seed(),
    }


def _seed_python(seed: int) -> None:
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
