"""Refuses a module that is spread over processes: its copy would communicate with the others.

The classes are recognised by name, since importing torch's FSDP takes a second.
"""

from torch import nn

from gradient_check.phases.errors import ConfigError

_REPLICATED = "DistributedDataParallel"
_SHARDED = ("FullyShardedDataParallel", "FSDPModule")
_TENSOR = "DTensor"
_PACKAGES = ("torch.distributed.", "torch.nn.parallel.")


def check_local(module: nn.Module) -> None:
    """Refuse a module that DistributedDataParallel, FSDP or DTensor spread over processes.

    Raises:
        ConfigError: a part of the module, or a parameter, is shared between processes.
    """
    for path, part in module.named_modules():
        name = next((n for n in (_REPLICATED, *_SHARDED) if _is_a(part, n)), None)
        if name == _REPLICATED:
            raise ConfigError(_message(path, f"a {name}", f"or `{_member(path)}.module`"))
        if name is not None:
            raise ConfigError(_message(path, "an FSDP module", "on one process"))
    for path, parameter in module.named_parameters():
        if _is_a(parameter, _TENSOR):
            raise ConfigError(_message(path, f"a {_TENSOR}", "on one process"))


def _message(path: str, kind: str, remedy: str) -> str:
    return (
        f"{_member(path)} is {kind}, which exchanges gradients with other processes; the check "
        f"runs on copies in this process. Check the module before wrapping it, {remedy}."
    )


def _member(path: str) -> str:
    return f"module.{path}" if path else "module"


def _is_a(value: object, name: str) -> bool:
    """Return whether one of a value's classes is torch's own class of this name."""
    bases = type(value).__mro__
    return any(b.__name__ == name and b.__module__.startswith(_PACKAGES) for b in bases)
