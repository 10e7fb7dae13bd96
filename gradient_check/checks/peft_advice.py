"""Remedies for PEFT's adapters that cannot be trained: merged, disabled or frozen ones.

PEFT is not imported: its layers and models are recognised by their attributes.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn


def advice_for_unused(module: nn.Module, names: Iterable[str]) -> str:
    """Return the remedy if a PEFT layer skips its adapter in the forward; else ""."""
    owners = ((module.get_submodule(path), name) for name in names for path in _above(name))
    return next(filter(None, (_advice_of(part, name) for part, name in owners)), "")


def _above(name: str) -> Iterator[str]:
    """Yield the paths of the modules round a parameter, the nearest first."""
    while name:
        name = name.rpartition(".")[0]
        yield name


def _advice_of(part: Any, name: str) -> str:  # noqa: ANN401 - a module with PEFT's attributes
    if not hasattr(part, "base_layer") or not hasattr(part, "active_adapters"):
        return ""
    if getattr(part, "merged", False):
        return (
            "The adapter is merged into the base's weights, so the adapter's own weights are not "
            "used: call `unmerge_adapter()` before training."
        )
    if getattr(part, "disable_adapters", False):
        return "The adapter is disabled: call `enable_adapter_layers()` before training."
    active = list(part.active_adapters)
    if not any(f".{adapter}" in name for adapter in active):
        return f"The active adapter is {', '.join(active)}: call `set_adapter` with the other name."
    return ""


def advice_for_frozen(module: nn.Module) -> str:
    """Return the remedy if PEFT has loaded an adapter for inference; else ""."""
    found = (getattr(part, "peft_config", None) for part in module.modules())
    configs = (each for config in found if isinstance(config, dict) for each in config.values())
    if not any(getattr(config, "inference_mode", False) for config in configs):
        return ""
    return (
        "PEFT has loaded the adapter for inference, and frozen it: pass `is_trainable=True` to "
        "`PeftModel.from_pretrained`."
    )
