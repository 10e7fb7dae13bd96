"""Deep copies of modules: those of `copy.deepcopy`, in a fraction of its time.

`deepcopy` spends most of its time on the registries of each module, of which nearly all are empty.
Here a module's state is copied entry by entry. A module or value that defines how it is copied goes
through `deepcopy`, with the same memo. This module knows no replica.
"""

import copy
import copyreg
from collections import OrderedDict
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import nn

_UNCHANGED = frozenset(
    (type(None), bool, int, float, str, bytes, FunctionType, BuiltinFunctionType, torch.dtype)
)
_TABLES = frozenset((dict, OrderedDict, set))
_OWN_WAYS = ("__deepcopy__", "__getnewargs__", "__getnewargs_ex__")
_MISSING = object()

Memo = dict[int, Any]
"""As that of `deepcopy`: copies by the `id` of what was copied."""


def deep_copy(value: Any, memo: Memo) -> Any:  # noqa: ANN401 - as `deepcopy`
    """Copy a module, or a value of a module's state, as `copy.deepcopy(value, memo)` does."""
    kind = type(value)
    if kind in _UNCHANGED:
        return value
    known = memo.get(id(value), _MISSING)
    if known is not _MISSING:
        return known
    if kind in _TABLES and not value:
        memo[id(value)] = made = kind()
        return made
    if kind is dict:
        memo[id(value)] = made = {}
        return _fill(made, value, memo)
    if issubclass(kind, nn.Module):
        return _copy_of_module(value, memo)
    return copy.deepcopy(value, memo)


def _fill(made: dict[Any, Any], table: dict[Any, Any], memo: Memo) -> dict[Any, Any]:
    for key, value in table.items():
        own_key = key if type(key) is str else deep_copy(key, memo)
        made[own_key] = value if type(value) in _UNCHANGED else deep_copy(value, memo)
    return made


def _copy_of_module(module: nn.Module, memo: Memo) -> nn.Module:
    if _has_own_way(module):
        _add_empty_tables(module, memo)
        return copy.deepcopy(module, memo)
    made: Any = type(module).__new__(type(module))
    memo[id(module)] = made
    state: Any = module.__getstate__()  # type: ignore[no-untyped-call]
    memo.setdefault(id(memo), []).append(state)  # an `id` in the memo must not be given again
    if state is not None:
        is_plain = type(state) is dict
        made.__setstate__(_fill({}, state, memo) if is_plain else copy.deepcopy(state, memo))
    return made  # type: ignore[no-any-return]


def _has_own_way(module: nn.Module) -> bool:
    """Return whether `deepcopy` would do more with a module than to copy its state."""
    kind = type(module)
    if (
        kind.__reduce_ex__ is not object.__reduce_ex__
        or kind.__reduce__ is not object.__reduce__
        or kind.__getattribute__ is not object.__getattribute__
        or kind in copyreg.dispatch_table
        or issubclass(kind, list | dict)
        or "__reduce_ex__" in vars(module)
    ):
        return True
    # an attribute that a module lacks is looked for in Python code, which takes 2 µs
    plain = kind.__getattr__ is nn.Module.__getattr__ and vars(module).keys().isdisjoint(_OWN_WAYS)
    where = kind if plain else module
    return any(getattr(where, name, None) is not None for name in _OWN_WAYS)


def _add_empty_tables(module: nn.Module, memo: Memo) -> None:
    """Add copies of the empty registries of all parts, over each of which `deepcopy` takes long."""
    values = (value for part in module.modules() for value in vars(part).values())
    for table in (value for value in values if type(value) in _TABLES and not value):
        memo.setdefault(id(table), type(table)())
