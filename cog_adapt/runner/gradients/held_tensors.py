"""Tensors that modules, classes and globals keep between calls."""

import sys
from collections.abc import Iterator, Mapping

from torch import Tensor, nn

_REGISTRIES = ("_parameters", "_buffers", "_modules")
_MOST_ITEMS = 1000


def kept_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield buffers, and tensors in plain attributes and in the lists and dicts among them."""
    yield from module.named_buffers()
    for path, value in _attributes(module):
        if isinstance(value, Tensor):
            yield path, value


def unregistered(module: nn.Module) -> dict[int, str]:
    """Return, by id, the paths of parameters, or tensors like them, that are not registered."""
    known = {id(p) for p in module.parameters()}
    found: dict[int, str] = {}
    for path, value in _attributes(module):
        inner = value.named_parameters() if isinstance(value, nn.Module) else ()
        named: list[tuple[str, Tensor]] = [(f"{path}.{name}", p) for name, p in inner]
        if isinstance(value, Tensor) and value.is_leaf and value.requires_grad:
            named.append((path, value))
        found.update((id(p), name) for name, p in named if id(p) not in known)
    return found


def _attributes(module: nn.Module) -> Iterator[tuple[str, object]]:
    """Yield the plain attributes of all parts, and items of lists and dicts, two levels deep."""
    for prefix, part in module.named_modules():
        own = {name: value for name, value in vars(part).items() if name not in _REGISTRIES}
        for name, value in own.items():
            yield from _items(f"{prefix}.{name}".lstrip("."), value, 2)


def _items(path: str, value: object, depth: int) -> Iterator[tuple[str, object]]:
    yield path, value
    if depth == 0 or not isinstance(value, list | tuple | dict):
        return
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(pairs)[:_MOST_ITEMS]:
        if isinstance(item, Tensor | nn.Module | list | tuple | dict):
            yield from _items(f"{path}[{key!r}]", item, depth - 1)


def inference_tensors(module: nn.Module) -> Iterator[str]:
    """Yield the names of inference tensors in the classes and the files of a module's parts."""
    for part in module.modules():
        kind = type(part)
        yield from _inference_tensors_in(kind.__name__, vars(kind))
        yield from _inference_tensors_in(kind.__module__, vars(sys.modules[kind.__module__]))


def _inference_tensors_in(scope: str, table: Mapping[str, object]) -> Iterator[str]:
    for name, value in list(table.items()):
        values = value.values() if isinstance(value, dict) else [value]
        if any(isinstance(v, Tensor) and v.is_inference() for v in list(values)):
            yield f"{scope}.{name}"
