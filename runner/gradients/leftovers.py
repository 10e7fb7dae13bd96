"""Tensors that modules, classes and globals keep between calls."""

import sys
from collections.abc import Iterator

from torch import Tensor, nn


def kept_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Buffers and tensors in plain attributes."""
    yield from module.named_buffers()
    for prefix, part in module.named_modules():
        for name, value in vars(part).items():
            if isinstance(value, Tensor):
                yield f"{prefix}.{name}".lstrip("."), value


def inference_tensors(module: nn.Module) -> Iterator[str]:
    """Names of inference tensors in the classes of a module's parts and in their files."""
    for part in module.modules():
        kind = type(part)
        for scope, table in (
            (kind.__name__, vars(kind)),
            (kind.__module__, vars(sys.modules[kind.__module__])),
        ):
            for name, value in list(table.items()):
                values = value.values() if isinstance(value, dict) else [value]
                if any(isinstance(v, Tensor) and v.is_inference() for v in list(values)):
                    yield f"{scope}.{name}"
