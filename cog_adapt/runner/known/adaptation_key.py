"""The key of an adaptation: a digest of everything that its result depends on.

The result depends on the base, the task and its code, the examples, the recipe, the seed, the
versions, the precision, and the adapter to begin from. An adaptation that depends on a value
without a canonical form has no key, so its result is never reused. This module knows no owner, no
store and no time.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from torch import Tensor

from cog_adapt.runner.config import Recipe, recipe_fields
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.task.code import code_behind
from cog_adapt.runner.task.decoding import Decoded
from cog_adapt.runner.task.task import Task

_PLAIN = (str, int, float, bool, type(None))
# Attributes of a task that follow from its source, or only decide what is refused.
_CODE = (
    *("options", "probe_options", "counts", "max_characters", "max_decoding", "decoding_unit"),
)
_DIGITS, _ROW_DIGITS = 32, 16
_DEEPEST = 16  # levels of nesting in a task's value, which may contain itself


@dataclass(frozen=True)
class AdaptationKey:
    """The digests that identify an adaptation.

    Attributes:
        whole: digest of everything.
        family: digest of everything but the examples.
        rows: a digest of each example, in order.
    """

    whole: str
    family: str
    rows: tuple[str, ...]


def key_of(
    examples: Sequence[Example], recipe: Recipe, begin: str | None, origin: str | None
) -> AdaptationKey | None:
    """Return the key of an adaptation; None if a part of it has no canonical form.

    Args:
        examples: the order of the examples counts, because batches are drawn by position.
        recipe: the resolved recipe; the recipe's time budget does not count.
        begin: the id of the adapter to begin from.
        origin: `origin_of` the model.
    """
    rows = rows_of(examples)
    if origin is None or rows is None:
        return None
    steps = recipe_fields(replace(recipe, budget_seconds=None))
    family = _digest([origin, steps, begin])[:_ROW_DIGITS]
    return AdaptationKey(_digest([family, sum_of(rows)])[:_DIGITS], family, rows)


def rows_of(examples: Sequence[Example]) -> tuple[str, ...] | None:
    """Return a digest of each example; None if one has no canonical form."""
    try:
        return tuple(_digest([row.input, row.target])[:_ROW_DIGITS] for row in examples)
    except TypeError:
        return None


def input_digests(inputs: Sequence[Any]) -> list[str | None]:
    """Return a digest of each input, None for one without a canonical form. For `FeatureCache`."""
    return [_input_digest(each) for each in inputs]


def _input_digest(value: object) -> str | None:
    try:
        return _digest(value)[:_DIGITS]
    except TypeError:
        return None


def sum_of(rows: Sequence[str]) -> str:
    """Return one digest of the digests of a set of examples."""
    return hashlib.sha256("".join(rows).encode()).hexdigest()


def origin_of(task: Task, *others: str) -> str | None:
    """Return a digest of a task's code and the model's other parts; None if the code is unknown."""
    source = source_digest(task)
    if source is None:
        return None
    own = {name: found for name, each in vars(task).items() if (found := _settled(each))}
    named = {name: getattr(task, name) for name in Task.__annotations__ if name not in _CODE}
    return _digest([type(task).__qualname__, source, own, named, list(others)])


def _settled(value: object, depth: int = 0) -> str | None:
    """Return a digest of a task's attribute; None for a part of the model, such as a tokenizer."""
    if is_dataclass(value) and not isinstance(value, type):
        parts: list[object] = [getattr(value, each.name, None) for each in fields(value)]
    elif isinstance(value, Path | Enum):
        parts = [str(value)]
    elif isinstance(value, Mapping):
        parts = [part for pair in value.items() for part in pair]
    elif isinstance(value, set | frozenset):
        parts = sorted(value, key=repr)
    elif isinstance(value, list | tuple):
        parts = [*value]
    else:
        try:
            return _digest(value)
        except (TypeError, RuntimeError):  # tensors without memory on this machine: meta, sparse
            return None
    found = [_settled(part, depth + 1) for part in parts] if depth < _DEEPEST else []
    return _digest([type(value).__qualname__, *found])


def source_digest(task: Task) -> str | None:
    """Return a digest of the files of a task's classes, and of the owner's files that they use.

    None if a class has no file.
    """
    own = type(task).__mro__[: type(task).__mro__.index(Task)]
    try:
        files = {Path(str(sys.modules[each.__module__].__file__)) for each in own}
        files |= code_behind(own)[0]
        return _digest(sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in files))
    except (OSError, KeyError, AttributeError):
        return None


def _digest(value: object) -> str:
    text = json.dumps(_canonical(value), ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: object) -> object:
    """Return a JSON value that differs whenever the values differ (TypeError if there is none)."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Mapping):
        return {"mapping": sorted(_pairs(value))}
    if isinstance(value, list | tuple):
        return [_canonical(each) for each in value]
    if isinstance(value, Decoded):
        return _canonical(value.sent)
    if isinstance(value, bytes):
        return {"bytes": hashlib.sha256(value).hexdigest()}
    if isinstance(value, Tensor):
        value = value.detach().cpu().contiguous().numpy()
    return {type(value).__qualname__: _array(value)}


def _pairs(value: Mapping[Any, object]) -> Iterator[tuple[str, str]]:
    for name, each in value.items():
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no name")
        yield name, json.dumps(_canonical(each))


def _array(value: Any) -> list[str]:  # noqa: ANN401 - of numpy, or a picture
    """Describe an array or a picture by shape and bytes."""
    about: Iterable[str] = ("dtype", "shape") if hasattr(value, "dtype") else ("mode", "size")
    missing = [name for name in (*about, "tobytes") if not hasattr(value, name)]
    if missing or str(getattr(value, "dtype", "")) == "object":
        raise TypeError(f"{type(value).__name__} has no canonical form")
    described = [str(getattr(value, name)) for name in about]
    if hasattr(value, "getpalette"):  # the values of a palette picture are places in its palette
        described += [str(value.getpalette()), str(value.info.get("transparency"))]
    return [*described, hashlib.sha256(value.tobytes()).hexdigest()]
