"""What one request carries for the model, whatever the task: inputs, examples, an adapter."""

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cog_adapt.adapter_rule import Asker
from cog_adapt.runner.adaptation.first_tensors import labels_to_learn, part_of
from cog_adapt.runner.adaptation.methods import resolve
from cog_adapt.runner.config import Recipe
from cog_adapt.runner.data.examples import (
    DEFAULT_LIMITS,
    ExampleLimits,
    ExampleSet,
    Source,
    parse_examples,
)
from cog_adapt.runner.errors import InputError, WeightsError
from cog_adapt.runner.files import read_text_or_zip
from cog_adapt.runner.modules.adapters import Adapter, read_adapter
from cog_adapt.runner.storage.store import AdapterStore
from cog_adapt.runner.task import Task, decodes

_URL = ("data:", "http://", "https://")
_FEW_CHARACTERS, _FEW_ROWS = 2**16, 500  # read in a few milliseconds
_SHOWN = 80
_SHOWN_LABELS = 5


@dataclass(frozen=True)
class Request:
    """What one request carries; a door fills in what it has inputs for.

    Attributes:
        inputs: to answer.
        labels: the label names to score, for a task that has labels and no fixed set.
        examples: rows to adapt to, as text in one of the formats or as a list of objects.
        examples_file: the same in a file that the server has fetched.
        adapter: an adapter that the owner may use: its id, `name`, or `name@v2`.
        weights: an adapter's file that the server has fetched.
        recipe: how to adapt.
        strict: refuse examples that would only be warned about in the report.
        fresh: begin anew though an adapter of a part of the examples is known.
        options: the request's own parameters, of the class of `Task.options`.
        deterministic: answer as if nobody else asked, bit for bit (see `Query`).
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


def is_large(request: Request) -> bool:
    """Tell whether to read a request may take long: it has a file, or more than a few rows."""
    most = _FEW_CHARACTERS if isinstance(request.examples, str) else _FEW_ROWS
    return bool(request.examples_file or request.weights or len(request.examples) > most)


def read_request_examples(request: Request, task: Task) -> ExampleSet:
    """Read the examples of a request, by `Task.example`; an empty set where it has none.

    Raises:
        InputError: they cannot be read, come twice, or lie in a file that nobody fetched.
    """
    if request.examples and request.examples_file:
        raise InputError("`examples` and `examples_file` are both set. Send one of them.")
    if isinstance(request.examples, str) and request.examples.startswith(_URL):
        raise InputError(
            f"`examples` is the URL {request.examples[:_SHOWN]!r}; it takes rows. Send a file or "
            "a URL as `examples_file`."
        )
    if not request.examples and not request.examples_file:
        return ExampleSet([])
    name = "examples_file" if request.examples_file else "examples"
    try:
        return parse_examples(_source(request), task.example, _limits_for(task))
    except InputError as error:
        raise InputError(f"`{name}`: {error}") from error


def _limits_for(task: Task) -> ExampleLimits:
    """Return the limits of examples: a row is encoded as an input is, or decoded before."""
    if decodes(task):
        return DEFAULT_LIMITS
    return replace(DEFAULT_LIMITS, max_characters=task.max_characters)


def _source(request: Request) -> Source:
    """Return the rows as they came; a caller need not know where a fetched file lies."""
    if not request.examples_file:
        return request.examples
    return read_text_or_zip(fetched(request.examples_file), DEFAULT_LIMITS.max_total_bytes)


def find_adapter(request: Request, store: AdapterStore, asker: Asker) -> Adapter | None:
    """Find the adapter that a request names or sends as a file; None where it has none.

    A file is its sender's, for this request.

    Raises:
        InputError: no such one, or a file that nobody fetched.
        WeightsError: the file is no adapter.
    """
    if request.adapter and request.weights:
        raise InputError("`adapter` and `weights` are both set. Send one of them.")
    if request.adapter.startswith(_URL):
        raise InputError(
            f"`adapter` is the URL {request.adapter[:_SHOWN]!r}; it takes an id or a name. Send a "
            "file or a URL as `weights`."
        )
    if request.weights:
        return _sent_adapter(request.weights)
    if not request.adapter:
        return None
    return store.get(request.adapter, asker.owner, sees_all=asker.sees_all)


def begin_of(
    task: Task, request: Request, examples: ExampleSet, adapter: Adapter | None
) -> Adapter | None:
    """Return what the adaptation goes on from; `labels` keeps a part of the adapter's.

    Raises:
        InputError: the recipe is another than the adapter's, or a label is nobody's.
    """
    resolve(request.recipe, task, adapter)
    if adapter is None or not adapter.labels or not request.labels:
        return adapter
    targets = {e.target for e in examples.examples if isinstance(e.target, Hashable)}
    all_labels = labels_to_learn(task, examples.examples, adapter)
    found = {label for label in all_labels if label in targets}
    asked = dict.fromkeys(request.labels)
    wrong = [*(set(asked) - found - set(adapter.labels)), *(found - set(asked))]
    if wrong:
        raise InputError(
            f"`labels` has {list(asked)!r}: {sorted(wrong)[:_SHOWN_LABELS]!r} must be among the "
            f"labels of the adapter, {list(adapter.labels)!r}, or of the examples, and each of the "
            "examples' among `labels`. Leave `labels` out to have all of both."
        )
    return part_of(adapter, [*asked], task.head)


def _sent_adapter(weights: object) -> Adapter:
    try:
        return read_adapter(fetched(weights))
    except (InputError, WeightsError) as error:
        raise type(error)(f"`weights`: {error}") from error


def fetched(value: object) -> Path:
    """Return the path of a file that the server has fetched for this request.

    Cog hands a fetched file over as a `Path`, and any other text as it came: that text would be a
    path of this machine, chosen by the caller.

    Raises:
        InputError: the value is no fetched file.
    """
    if not isinstance(value, os.PathLike):
        raise InputError(
            f"{str(value)[:_SHOWN]!r} is no file that this server has fetched. Send a file, or an "
            "http(s):// or data: URL."
        )
    return Path(value)
