"""Selects the parameters that are trained, and groups them by block and by layer."""

import math
import re
from collections.abc import Callable, Mapping, Sequence

from torch import nn

from gradient_check.phases.errors import ConfigError

Selection = str | Callable[[str, nn.Parameter], bool] | None


def select(module: nn.Module, selection: Selection) -> list[str]:
    """Return the names of the selected float and complex parameters; a tie is listed once."""
    named = [
        (n, p) for n, p in module.named_parameters() if p.is_floating_point() or p.is_complex()
    ]
    if selection is None:
        return [name for name, _ in named]
    if isinstance(selection, str):
        pattern = re.compile(selection)
        return [name for name, _ in named if pattern.search(name)]
    return [name for name, parameter in named if _is_selected(selection, name, parameter)]


def _is_selected(
    selection: Callable[[str, nn.Parameter], bool], name: str, parameter: nn.Parameter
) -> bool:
    try:
        return selection(name, parameter)
    except Exception as error:
        raise ConfigError(
            f"trainable raised {type(error).__name__}: {error}, for {name}. Let it return whether "
            "a parameter of that name is to be trained."
        ) from error


def group_by_block(module: nn.Module, names: Sequence[str]) -> dict[str, list[str]]:
    """Group parameter names by block: an item of the longest list of modules, else a child."""
    lists = [
        (name, part)
        for name, part in module.named_modules()
        if isinstance(part, nn.ModuleList | nn.Sequential) and len(part) > 1
    ]
    prefix = max(lists, key=lambda pair: len(pair[1]), default=("", None))[0]
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_block_of(name, prefix), []).append(name)
    return groups


def _block_of(name: str, prefix: str) -> str:
    if prefix and name.startswith(f"{prefix}."):
        return f"{prefix}.{name.removeprefix(f'{prefix}.').split('.')[0]}"
    parts = name.split(".")
    depth = 1
    while prefix.startswith(".".join(parts[:depth]) + ".") and depth < len(parts) - 1:
        depth += 1
    return ".".join(parts[: min(depth, max(len(parts) - 1, 1))])


def by_layer(norms: Mapping[str, float]) -> dict[str, float]:
    """Return the norm of each layer's gradient, over all of its parameters."""
    layers: dict[str, list[float]] = {}
    for name, norm in norms.items():
        layers.setdefault(name.rpartition(".")[0] or "(root)", []).append(norm)
    return {layer: math.hypot(*own) for layer, own in layers.items()}
