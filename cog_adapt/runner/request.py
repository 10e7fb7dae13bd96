"""The values of one request to the model, for any task: inputs, examples, an adapter."""

import os
from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from cog_adapt.runner.config import Recipe
from cog_adapt.runner.data.examples import (
    DEFAULT_LIMITS,
    ExampleLimits,
    ExampleOf,
    ExampleSet,
    Source,
    parse_examples,
)
from cog_adapt.runner.data.files import read_text_or_zip
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.task.task import Task, decodes

URL = ("data:", "http://", "https://")
_FEW_CHARACTERS, _FEW_ROWS = 2**16, 500  # a source of at most this size takes a few ms to read
_SMALL_BYTES = 2**18  # of all files and texts: headers of larger ones may take 0.1 s to read
_BYTES_OF_ITEM = 16  # an item of a list or object counts as so many
_SHOWN = 80


@dataclass(frozen=True)
class Request:
    """The values of one request; a predictor fills in those that it has inputs for.

    Attributes:
        inputs: to answer.
        labels: the label names to score, for a task that has labels and no fixed set.
        examples: rows to adapt to, as text in one of the formats or as a list of objects.
        examples_file: the same in a file that the server has downloaded.
        adapter: an adapter that the owner may use: its id, `name`, or `name@v2`.
        weights: an adapter's file that the server has downloaded.
        recipe: of the adaptation.
        strict: refuse examples that otherwise cause a warning in the report.
        fresh: begin anew even if an adapter of a part of the examples is known.
        options: the request's own parameters, of the class of `Task.options`.
        deterministic: answer independently of other requests, bit for bit (see `Query`).
        lora_scale: how strongly the LoRA pairs of the adapter that answers count.
        extra_lora: a second adapter, like `adapter`, whose LoRA pairs are added.
        extra_lora_scale: how strongly those count.
        row_defaults: columns of rows that lack them, such as a trigger word.
    """

    inputs: Sequence[Any] = ()
    labels: Sequence[str] = ()
    examples: str | Sequence[Mapping[str, Any]] = ""
    examples_file: Path | None = None
    adapter: str = ""
    weights: Path | None = None
    recipe: Recipe = field(default_factory=Recipe)
    strict: bool = False
    fresh: bool = False
    options: Any = None
    deterministic: bool = False
    lora_scale: float = 1.0
    extra_lora: str = ""
    extra_lora_scale: float = 1.0
    row_defaults: Mapping[str, Any] = field(default_factory=dict)


def is_large(request: Request) -> bool:
    """Return whether reading a request may take long: it has files, or more than a few rows."""
    most = _FEW_CHARACTERS if isinstance(request.examples, str) else _FEW_ROWS
    if request.examples_file or request.weights or len(request.examples) > most:
        return True
    rows = () if isinstance(request.examples, str) else request.examples
    return _is_more_than_small([*request.inputs, *rows])


def _is_more_than_small(values: list[Any]) -> bool:
    """Return whether files, texts and items of values are many; the walk ends where they are."""
    total = 0
    while values and total <= _SMALL_BYTES:
        part = values.pop()
        total += _bytes_of(part)
        if total <= _SMALL_BYTES:
            values += _items_of(part)
    return total > _SMALL_BYTES


def _bytes_of(part: object) -> int:
    if isinstance(part, str | bytes):
        return len(part)
    if isinstance(part, os.PathLike):
        return _file_size(part)
    return _BYTES_OF_ITEM * len(part) if isinstance(part, Mapping | list | tuple) else 0


def _items_of(part: object) -> Iterable[Any]:
    if isinstance(part, Mapping):
        return part.values()
    return part if isinstance(part, list | tuple) else ()


def _file_size(path: os.PathLike[str]) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0  # the task's own error names a file that is gone


def read_request_examples(request: Request, task: Task) -> ExampleSet:
    """Read the examples of a request by `Task.example`; an empty set if it has none.

    Raises:
        InputError: they cannot be read, come twice, or lie in a file that was not downloaded.
    """
    if request.examples and request.examples_file:
        raise InputError("`examples` and `examples_file` are both set. Send one of them.")
    if isinstance(request.examples, str) and request.examples.startswith(URL):
        raise InputError(
            f"`examples` is the URL {request.examples[:_SHOWN]!r}, but takes rows. Send a file or "
            "a URL as `examples_file`."
        )
    if not request.examples and not request.examples_file:
        return ExampleSet([])
    name = "examples_file" if request.examples_file else "examples"
    try:
        return parse_examples(_source(request), _example_of(request, task), _limits_for(task))
    except InputError as error:
        raise InputError(f"`{name}`: {error}") from error


def _example_of(request: Request, task: Task) -> ExampleOf:
    """Return what makes an example of a row, which has the request's defaults behind its own."""
    defaults = dict(request.row_defaults)
    if not defaults:
        return task.example
    # a row notes which of its columns are read
    return lambda row: task.example(ChainMap(cast("MutableMapping[str, Any]", row), defaults))


def _limits_for(task: Task) -> ExampleLimits:
    """Return the limits of examples: a row is encoded like an input, or decoded before."""
    if decodes(task):
        return DEFAULT_LIMITS
    return replace(DEFAULT_LIMITS, max_characters=task.max_characters)


def _source(request: Request) -> Source:
    """Return the rows as they were sent, without the path of a downloaded file."""
    if not request.examples_file:
        return request.examples
    return read_text_or_zip(fetched(request.examples_file), DEFAULT_LIMITS.max_total_bytes)


def fetched(value: object) -> Path:
    """Return the path of a file that the server has downloaded for this request.

    Cog passes a downloaded file as a `Path`, and any other text unchanged: such a text would be a
    path on this machine, chosen by the caller.

    Raises:
        InputError: the value is no downloaded file.
    """
    if not isinstance(value, os.PathLike):
        raise InputError(
            f"{str(value)[:_SHOWN]!r} is no file that this server has fetched. Send a file, or an "
            "http(s):// or data: URL."
        )
    return Path(value)
