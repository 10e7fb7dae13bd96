"""The answers of `torch.cuda`, whose own need a build with CUDA."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tests.standin import NAME, VERSION

CAPABILITY = (8, 0)  # a card of this one has bfloat16
_SEEDS = 2**63 - 1
_CUDA = 1  # of c10::DeviceType
_ops = torch.ops.standin

Device = torch.device | str | int | None


def _index(device: Device = None) -> int:
    """Return the number of a device as `torch.cuda` reads it: without one, the current device."""
    if isinstance(device, int):
        number: int | None = device if device >= 0 else None
    else:
        chosen = torch.device(device if device is not None else "cuda")
        if chosen.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {chosen}")
        number = chosen.index
    return int(_ops.current_device()) if number is None else number


def _all() -> range:
    return range(_ops.device_count())


def _exchange_device(number: int) -> int:
    before = int(_ops.current_device())
    if number >= 0:
        _ops.set_device(number)
    return before


def _maybe_exchange_device(number: int) -> int:
    return _exchange_device(number)  # dynamo keeps a table of both, which must be two


def _properties(device: Device = None) -> SimpleNamespace:
    major, minor = CAPABILITY
    return SimpleNamespace(
        name=NAME,
        major=major,
        minor=minor,
        total_memory=_ops.limit(_index(device)),
        multi_processor_count=1,
    )


def _memory(device: Device = None) -> tuple[int, int]:
    number = _index(device)
    return _ops.limit(number) - _ops.allocated(number), _ops.limit(number)


def _default_stream(device: Device = None) -> torch.Stream:
    return torch.Stream(stream_id=0, device_index=_index(device), device_type=_CUDA)


def _seed_all(seed: int) -> None:
    for number in _all():
        _ops.seed(seed & _SEEDS, number)


def _set_states(states: list[Tensor]) -> None:
    for number, state in enumerate(states):
        _ops.set_random_state(state, number)


ANSWERS: dict[str, Callable[..., Any]] = {
    "init": lambda: None,
    "_lazy_init": lambda: None,
    "is_available": lambda: True,
    "is_initialized": lambda: True,
    "device_count": _ops.device_count,
    "current_device": _ops.current_device,
    "set_device": lambda device: _ops.set_device(_index(device)),
    "_exchange_device": _exchange_device,
    "_maybe_exchange_device": _maybe_exchange_device,
    "get_device_name": lambda device=None: NAME,
    "get_device_capability": lambda device=None: CAPABILITY,
    "get_device_properties": _properties,
    "get_arch_list": lambda: ["sm_80"],
    "is_bf16_supported": lambda including_emulation=True: True,
    "current_stream": lambda device=None: torch.accelerator.current_stream(_index(device)),
    "default_stream": _default_stream,
    "set_stream": torch.accelerator.set_stream,
    "synchronize": lambda device=None: _ops.synchronize(),
    "empty_cache": lambda: None,
    "ipc_collect": lambda: None,
    "memory_allocated": lambda device=None: _ops.allocated(_index(device)),
    "memory_reserved": lambda device=None: _ops.allocated(_index(device)),
    "max_memory_allocated": lambda device=None: _ops.peak(_index(device)),
    "reset_peak_memory_stats": lambda device=None: _ops.reset_peak(_index(device)),
    "mem_get_info": _memory,
    "manual_seed": lambda seed: _ops.seed(int(seed) & _SEEDS, _index()),
    "manual_seed_all": lambda seed: _seed_all(int(seed)),
    "initial_seed": lambda: _ops.initial_seed(_index()),
    "get_rng_state": lambda device="cuda": _ops.random_state(_index(device)),
    "set_rng_state": lambda state, device="cuda": _ops.set_random_state(state, _index(device)),
    "get_rng_state_all": lambda: [_ops.random_state(number) for number in _all()],
    "set_rng_state_all": _set_states,
}


def install() -> None:
    """Answer for the device wherever torch keeps these functions."""
    for name, answer in ANSWERS.items():
        for module in (torch.cuda, torch.cuda.random, torch.cuda.memory):
            if hasattr(module, name):
                setattr(module, name, answer)
    torch.cuda._initialized = True
    torch.version.cuda = VERSION
