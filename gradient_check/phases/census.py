"""The health of tensors, and the census of a module that must not change.

Setup takes a census; the tripwire compares it with the module after every adaptation. The checksum
reads the bits, because writes through `.data` or NumPy leave `_version` unchanged.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as module_globals
from torch.nn.parameter import is_lazy

from gradient_check.phases.float32 import Float32
from gradient_check.phases.libraries import is_of_a_library
from gradient_check.phases.modes import run_setup

NO_SUMS: Mapping[str, int] = MappingProxyType({})
_SUMS = 127  # sums in a checksum: a prime, so that a swap of rows of common widths is noticed too
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_DEBUG_MODES = ("default", "warn", "error")  # the names of torch's deterministic modes 0, 1 and 2


def is_healthy(tensor: Tensor) -> bool:
    """Return whether autograd can use `tensor`: no inference tensor, and not cast from one.

    A tensor cast in place (`module.double()`) from an inference tensor does not report to be one,
    but has no version counter, so training would raise.
    """
    if tensor.is_inference():
        return False
    try:
        return tensor._version >= 0
    except RuntimeError:
        return False


def heal(module: nn.Module) -> list[str]:
    """Replace unhealthy parameters and buffers by normal copies; ties stay tied.

    Returns:
        The names of the tensors that were replaced.
    """
    return run_setup(_heal, module)


def _heal(module: nn.Module) -> list[str]:
    copies: dict[int, Tensor] = {}
    names = []
    for prefix, owner in module.named_modules():
        for table in (owner._parameters, owner._buffers):
            names += [f"{prefix}.{name}".lstrip(".") for name in _heal_table(table, copies)]
    return names


def _heal_table(table: dict[str, Any], copies: dict[int, Tensor]) -> list[str]:
    """Replace the unhealthy tensors of one registry; a tensor that occurs twice gets one copy."""
    ill = {name: tensor for name, tensor in table.items() if _needs_healing(tensor)}
    for name, tensor in ill.items():
        if id(tensor) not in copies:
            copies[id(tensor)] = _healed(tensor)
        table[name] = copies[id(tensor)]
    return list(ill)


def _needs_healing(tensor: Tensor | None) -> bool:
    return tensor is not None and not is_lazy(tensor) and not is_healthy(tensor)


def _healed(tensor: Tensor) -> Tensor:
    copy = tensor.detach().clone()
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(copy, requires_grad=tensor.requires_grad)
    return copy


def checksums(tensors: dict[str, Tensor]) -> dict[str, int]:
    """Return an integer for each tensor that changes with any bit; one transfer a device.

    The sum distinguishes -0.0 from 0.0 and reads NaN by its bits. It is no cryptographic digest.
    """
    return run_setup(_checksums, tensors)


def _checksums(tensors: dict[str, Tensor]) -> dict[str, int]:
    by_device: dict[torch.device, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        by_device.setdefault(tensor.device, {})[name] = _bit_sum(tensor)
    sums: dict[str, int] = {}
    for group in by_device.values():
        sums.update(zip(group, torch.stack(list(group.values())).tolist(), strict=True))
    return {name: sums[name] for name in tensors}


def _bit_sum(tensor: Tensor) -> Tensor:
    if tensor.is_meta or tensor.numel() == 0:
        where = "cpu" if tensor.is_meta else tensor.device
        return torch.zeros((), dtype=torch.int64, device=where)
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    flat = tensor.detach().contiguous().reshape(-1)
    flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    if flat.storage_offset() * flat.element_size() % 8:
        flat = flat.clone()  # the sum must not depend on the tensor's place in memory
    bits = flat.view(_widest_integer(flat))
    # odd numbers, because a product with an odd number loses no bits
    weights = torch.arange(1, 2 * _SUMS, 2, device=bits.device)
    whole = bits.numel() // _SUMS * _SUMS
    sums = bits[:whole].view(-1, _SUMS).sum(0, dtype=torch.int64)
    rest = bits[whole:].to(torch.int64)
    return (sums * weights).sum() + (rest * weights[: rest.numel()]).sum() * 3


def _widest_integer(flat: Tensor) -> torch.dtype:
    """Return int64 if the memory allows it (ten times faster), else the element's size."""
    size = flat.element_size()
    return torch.int64 if flat.numel() * size % 8 == 0 else _INTEGERS[size]


@dataclass(frozen=True)
class _Entry:
    """The state of one parameter or buffer at the census."""

    identity: int
    address: int
    version: int
    checksum: int
    requires_grad: bool
    has_grad: bool


@dataclass(frozen=True)
class _Part:
    """The state of one module at the census."""

    identity: int
    training: bool
    hooks: int


@dataclass(frozen=True)
class Census:
    """The state of a module, and the process-wide flags, at one moment."""

    tensors: dict[str, _Entry]
    modules: dict[str, _Part]
    process: dict[str, object]

    @classmethod
    def of(cls, module: nn.Module, known: Mapping[str, int] = NO_SUMS) -> "Census":
        """Take the census of `module`, by reading every bit of it once.

        Args:
            module: any module.
            known: checksums of some of its tensors by name; these tensors are not read again.
        """
        tensors = dict(_persistent_tensors(module))
        sums = checksums({n: t for n, t in tensors.items() if n not in known}) | dict(known)
        entries = {name: _entry(tensor, sums[name]) for name, tensor in tensors.items()}
        hooks = count_hooks(module)
        parts = {
            name: _Part(id(part), part.training, hooks[name])
            for name, part in module.named_modules()
        }
        return cls(entries, parts, process_flags())

    def changes(self, module: nn.Module, known: Mapping[str, int] = NO_SUMS) -> list[str]:
        """Return the differences between this census and `module` now, a sentence each.

        `known` are checksums of this moment, as for `of`.
        """
        now = Census.of(module, known)
        return [
            *_compare("tensor", _by_field(self.tensors), _by_field(now.tensors)),
            *_compare("module", _by_field(self.modules), _by_field(now.modules)),
            *_compare("process flag", self.process, now.process),
        ]


def _by_field(entries: Mapping[str, _Entry | _Part]) -> dict[str, object]:
    """Return one value for each field of each entry, so that a change is named by its field."""
    return {
        f"{name} ({field})": value
        for name, entry in entries.items()
        for field, value in vars(entry).items()
    }


def _entry(tensor: Tensor, checksum: int) -> _Entry:
    return _Entry(
        identity=id(tensor),
        address=tensor.data_ptr(),
        version=tensor._version if is_healthy(tensor) else -1,
        checksum=checksum,
        requires_grad=tensor.requires_grad,
        has_grad=tensor.is_leaf and tensor.grad is not None,
    )


def _persistent_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters, and buffers except non-persistent ones, which models use as caches."""
    yield from module.named_parameters(remove_duplicate=False)
    for prefix, owner in module.named_modules():
        for name, buffer in _persistent_buffers(owner):
            yield f"{prefix}.{name}".lstrip("."), buffer


def _persistent_buffers(owner: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for name, buffer in owner._buffers.items():
        if buffer is not None and name not in owner._non_persistent_buffers_set:
            yield name, buffer


def count_hooks(module: nn.Module) -> dict[str, int]:
    """Return the number of hooks of each module, except those of libraries."""
    return {name: _count_hooks(part) for name, part in module.named_modules()}


def _count_hooks(part: nn.Module) -> int:
    """Count a module's hooks, except those of libraries; some appear at the first forward."""
    tables = (value for name, value in vars(part).items() if name.endswith("_hooks"))
    hooks = (hook for table in tables if isinstance(table, dict) for hook in table.values())
    return sum(not is_of_a_library(hook) for hook in hooks)


def process_flags() -> dict[str, object]:
    """Return the settings of PyTorch that all threads share."""
    flags: dict[str, Any] = {
        "default dtype": torch.get_default_dtype(),
        "anomaly detection": torch.is_anomaly_enabled(),
        "deterministic algorithms": _DEBUG_MODES[torch.get_deterministic_debug_mode()],
        "threads": torch.get_num_threads(),
        **Float32.current().in_words(),
    }
    for name, table in vars(module_globals).items():
        if name.startswith("_global_") and name.endswith("_hooks"):
            flags[name.lstrip("_")] = len(table)
    return flags


def _compare(kind: str, before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    changes = [f"{kind} {name} is gone" for name in before.keys() - now.keys()]
    changes += [f"{kind} {name} is new" for name in now.keys() - before.keys()]
    for name in before.keys() & now.keys():
        if before[name] != now[name]:
            changes.append(f"{kind} {name} was {before[name]!r} and is {now[name]!r}")
    return sorted(changes)
