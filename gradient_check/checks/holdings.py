"""The tensors in the plain attributes of a module: an inference that stores a tensor adds one."""

from collections.abc import Mapping

from torch import nn

from gradient_check.instruments.held_tensors import tensors_in

_TORCHS_OWN = frozenset(vars(nn.Module()))

Holdings = Mapping[tuple[str, str], frozenset[int]]
"""By a part's path and an attribute's name, the ids of the tensors that it holds."""


def holdings_of(module: nn.Module) -> Holdings:
    """Return the ids of the tensors that each plain attribute of each part holds."""
    seen = {id(part) for part in module.modules()}  # many parts share one configuration
    return {
        (path, name): frozenset(id(tensor) for tensor in tensors_in(value, seen))
        for path, part in module.named_modules()
        for name, value in vars(part).items()
        if name not in _TORCHS_OWN
    }
