"""Ensures that a self-test leaves no trace: compares and restores the state from before it.

The state is the caller's module (registries, attributes, flags, hooks, gradients, bits), the
random streams of PyTorch, Python and NumPy, and PyTorch's process-wide settings.
"""

import random
import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as module_globals

from gradient_check.phases.census import checksums, process_flags
from gradient_check.phases.float32 import Float32


class Guard:
    """A snapshot of the caller's state, taken before the self-test touches anything."""

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        self.module = module
        self.device = device
        self.tensors = _tensors(module)
        self.bits = checksums(self.tensors)
        self._bits_now: dict[str, int] | None = None
        self.requires_grad = {name: t.requires_grad for name, t in self.tensors.items()}
        self.grads = {name: t.grad for name, t in self.tensors.items() if t.is_leaf}
        self.grad_copies = {n: g.clone() for n, g in self.grads.items() if g is not None}
        self.attributes = {part: _attributes(part) for part in module.modules()}
        self.strangers: dict[int, tuple[Tensor, Tensor | None, Tensor | None]] = {}
        self.flags, self.float32 = process_flags(), Float32.current()
        self.hooks = {name: dict(table) for name, table in _global_hooks().items()}
        self.streams = _streams(device)

    def leaked_gradients(self) -> tuple[str, ...]:
        """Return the parameters of the caller's module that got a gradient."""
        return tuple(
            name
            for name, before in self.grads.items()
            if self.tensors[name].grad is not before
            or (before is not None and not torch.equal(before, self.grad_copies[name]))
        )

    def remember(self, leaves: Iterable[Tensor]) -> None:
        """Record the present gradients of leaves about to get one, with any owner."""
        for leaf in leaves:
            grad = leaf.grad
            copy = grad.clone() if grad is not None else None
            self.strangers.setdefault(id(leaf), (leaf, grad, copy))

    def put_back_gradients(self) -> None:
        """Restore every parameter's gradient."""
        for name, before in self.grads.items():
            if before is not None:
                before.copy_(self.grad_copies[name])
            if self.tensors[name].grad is not before:
                self.tensors[name].grad = before

    def module_changes(self) -> list[str]:
        """Return the changes to the caller's module, a phrase each."""
        now = _tensors(self.module)
        changes = [f"{n} was replaced" for n, t in self.tensors.items() if now.get(n) is not t]
        changes += [f"{n} was written to" for n in self._written()]
        for name, tensor in self.tensors.items():
            if tensor.requires_grad != self.requires_grad[name]:
                changes.append(f"{name}.requires_grad is now {tensor.requires_grad}")
        for part, before in self.attributes.items():
            if not _same(before, _attributes(part)):
                changes.append(f"an attribute of {type(part).__name__} was replaced")
        return changes

    def bits_at_end(self) -> dict[str, int]:
        """Return the checksums of the module's tensors, read once, at the end of the test."""
        if self._bits_now is None:
            self._bits_now = checksums(self.tensors)
        return self._bits_now

    def _written(self) -> list[str]:
        return [n for n, bits in self.bits_at_end().items() if bits != self.bits[n]]

    def process_changes(self) -> list[str]:
        """Return the changes to the process's flags, a phrase each."""
        now = process_flags()
        return [f"{n} was {v} and is {now[n]}" for n, v in self.flags.items() if now[n] != v]

    def restore(self, copies: dict[str, Tensor]) -> None:
        """Restore everything; `copies` are the weights of a private copy of the module."""
        for part, before in self.attributes.items():
            if not _same(before, _attributes(part)):
                _put_back(part, before)
        for name in self._written():
            if name in copies:
                self.tensors[name].detach().copy_(copies[name])
        for name, tensor in self.tensors.items():
            if tensor.requires_grad != self.requires_grad[name]:
                tensor.requires_grad_(self.requires_grad[name])
        self.put_back_gradients()
        self._restore_strangers()
        self._restore_process()

    def _restore_strangers(self) -> None:
        for leaf, grad, copy in self.strangers.values():
            if grad is not None and copy is not None:
                grad.copy_(copy)
            leaf.grad = grad

    def _restore_process(self) -> None:
        if self.process_changes():
            torch.set_default_dtype(self.flags["default dtype"])  # type: ignore[arg-type]
            self.float32.put_back()
            torch.set_anomaly_enabled(bool(self.flags["anomaly detection"]))
            torch.set_deterministic_debug_mode(str(self.flags["deterministic algorithms"]))
            torch.set_num_threads(self.flags["threads"])  # type: ignore[arg-type]
        for name, table in _global_hooks().items():
            if dict(table) != self.hooks[name]:
                table.clear()
                table.update(self.hooks[name])
        self.restore_streams()

    def restore_streams(self) -> None:
        """Restore the random streams."""
        torch.set_rng_state(self.streams["torch"])
        if "cuda" in self.streams:
            torch.cuda.set_rng_state(self.streams["cuda"], self.device)
        random.setstate(self.streams["python"])
        if "numpy" in self.streams:
            sys.modules["numpy"].random.set_state(self.streams["numpy"])


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    named = dict(module.named_parameters(remove_duplicate=False))
    return named | dict(module.named_buffers(remove_duplicate=False))


def _streams(device: torch.device) -> dict[str, Any]:
    streams: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if device.type == "cuda":
        streams["cuda"] = torch.cuda.get_rng_state(device)
    if "numpy" in sys.modules:
        streams["numpy"] = sys.modules["numpy"].random.get_state()
    return streams


def _attributes(part: nn.Module) -> dict[str, Any]:
    """Return the module's attributes, with shallow copies of its registries."""
    return {
        name: dict(value) if name.startswith("_") and isinstance(value, dict) else value
        for name, value in vars(part).items()
    }


def _same(before: dict[str, Any], now: dict[str, Any]) -> bool:
    return before.keys() == now.keys() and all(
        _identical(value, now[name]) for name, value in before.items()
    )


def _identical(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(one[k] is other[k] for k in one)
    return one is other


def _put_back(part: nn.Module, before: dict[str, Any]) -> None:
    attributes = vars(part)
    for name in [name for name in attributes if name not in before]:
        del attributes[name]
    for name, value in before.items():
        if isinstance(attributes.get(name), dict) and name.startswith("_"):
            attributes[name].clear()
            attributes[name].update(value)
        else:
            attributes[name] = value


def _global_hooks() -> dict[str, Any]:
    return {
        name: table
        for name, table in vars(module_globals).items()
        if name.startswith("_global_") and name.endswith("_hooks")
    }
