"""Tensors that modules, classes and globals keep between calls."""

import functools
import sys
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from types import CellType, FunctionType, MemberDescriptorType, MethodType, ModuleType

from torch import Tensor, nn

_TORCHS_OWN = frozenset(vars(nn.Module()))  # includes hooks, whose tensors are not the module's
_REGISTRIES = ("_parameters", "_buffers", "_modules")
MOST_ITEMS = 1000
_MOST_HELD = 100_000
_DEPTH = 5  # levels of nested containers and objects
_PLAIN = (str, bytes, int, float, complex, type(None))
_STATE = (Tensor, nn.Module, list, tuple, dict, set)


def kept_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield buffers, and tensors in plain attributes and in the lists and dicts among them."""
    yield from module.named_buffers()
    for path, value in _attributes(module):
        if isinstance(value, Tensor):
            yield path, value


def unregistered(module: nn.Module) -> dict[int, str]:
    """Return, by id, the paths of parameters, or tensors like them, that are not registered.

    The search reads the attributes of the module's parts and of their classes, and looks inside
    containers, objects, functions and their closures there.
    """
    known = {id(p) for p in module.parameters()}
    found: dict[int, str] = {}
    for path, value in _held(module):
        if isinstance(value, Tensor) and value.is_leaf and value.requires_grad:
            found.setdefault(id(value), path)
    return {identity: path for identity, path in found.items() if identity not in known}


def tensors_in(value: object, seen: set[int] | None = None) -> list[Tensor]:
    """Return the tensors in a value: itself, or in its containers, objects and closures.

    Args:
        value: anything.
        seen: the ids of values examined before, which are left out; each id is added.
    """
    seen = set() if seen is None else seen
    found: list[Tensor] = []
    waiting = deque([(value, 0)])
    while waiting and len(seen) < _MOST_HELD:
        each, depth = waiting.popleft()
        if isinstance(each, Tensor):
            found.append(each)
        elif depth <= _DEPTH and not isinstance(each, _PLAIN) and id(each) not in seen:
            seen.add(id(each))
            waiting += [(inner, depth + 1) for _, inner in _inside(each)]
    return found


def _held(module: nn.Module) -> Iterator[tuple[str, object]]:
    """Yield the unregistered values of the parts, the nearest first."""
    parts = dict(module.named_modules())
    seen = {id(part) for part in parts.values()}
    waiting = deque((path, part, 0) for path, part in parts.items())
    while waiting and len(seen) < _MOST_HELD:
        path, holder, depth = waiting.popleft()
        depth += not isinstance(holder, nn.Module)
        inner = [] if depth > _DEPTH else list(_inside(holder))
        fresh = [(name, value) for name, value in inner if id(value) not in seen]
        seen |= {id(value) for _, value in fresh}
        found = [(f"{path}{name}".lstrip("."), v) for name, v in fresh if not isinstance(v, _PLAIN)]
        waiting += [(name, value, depth) for name, value in found]
        yield from found


def _inside(value: object) -> Iterator[tuple[str, object]]:
    """Yield the contents of a value, each with its path."""
    if isinstance(value, nn.Module):
        yield from _named({**_of_classes(type(value)), **vars(value)}, apart=_TORCHS_OWN)
        yield from _named({**value._parameters, **value._buffers, **value._modules})
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", each) for key, each in list(value.items())[:MOST_ITEMS])
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from ((f"[{n}]", each) for n, each in enumerate(list(value)[:MOST_ITEMS]))
    elif isinstance(value, FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        yield from _named({name: _content(cell) for name, cell in cells})
    elif isinstance(value, MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield from _inside([value.func, *value.args, *value.keywords.values()])
    elif not isinstance(value, Tensor | type | ModuleType):
        yield from _named(_attributes_of(value))


def _named(
    values: Mapping[str, object], apart: Collection[str] = ()
) -> Iterator[tuple[str, object]]:
    yield from ((f".{n}", value) for n, value in list(values.items()) if n not in apart)


def _attributes_of(value: object) -> dict[str, object]:
    """Return the attributes of an object, including slots."""
    own = dict(vars(value)) if hasattr(value, "__dict__") else {}
    slots = {n: s for kind in type(value).__mro__ for n, s in vars(kind).items()}
    filled = [n for n, s in slots.items() if isinstance(s, MemberDescriptorType)]
    return own | {name: getattr(value, name) for name in filled if hasattr(value, name)}


def _of_classes(kind: type) -> dict[str, object]:
    """Return the attributes of the caller's classes of a module, except methods."""
    owned = [each for each in kind.__mro__ if each.__module__.partition(".")[0] != "torch"]
    values = {name: value for each in owned[::-1] for name, value in vars(each).items()}
    return {name: v for name, v in values.items() if isinstance(v, _STATE)}


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # the cell is not filled yet
        return None


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
    for key, item in list(pairs)[:MOST_ITEMS]:
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
