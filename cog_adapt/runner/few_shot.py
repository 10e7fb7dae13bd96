"""The use case of both doors: adapt to labelled texts, then answer texts.

It turns what a request carries (strings) into values, and calls the runner. This module knows no
transport: not where the strings came from, nor where the answer goes.
"""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cog_adapt.runner.adapters import Adapter, adapter_from_bytes, load_adapter
from cog_adapt.runner.config import Recipe
from cog_adapt.runner.errors import InputError, StoreError
from cog_adapt.runner.examples import Example, parse_examples
from cog_adapt.runner.loaded_model import Adaptation
from cog_adapt.runner.model_runner import ModelRunner, OnStep
from cog_adapt.runner.references import is_url, read_url

_FEWEST_LABELS = 2
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Question:
    """What one request asks.

    Attributes:
        texts: to classify.
        labels: the label names to score, where there are neither examples nor an adapter.
        examples: labelled texts as JSON, JSON Lines or CSV, or a URL of such a file; "": none.
        adapter: an adapter's id, or a URL of its file; "": the default one.
    """

    texts: Sequence[str]
    labels: Sequence[str] = ()
    examples: str = ""
    adapter: str = ""


@dataclass(frozen=True)
class Answer:
    """What one request gets.

    Attributes:
        predictions: one for each text, by the adapted weights where there were examples.
        before: the same texts before this request's adaptation; None where there was none.
        adapter: the id to name in later requests; None where the base answered.
        report: the adaptation's report, and whether the adapter was `stored` on disk.
    """

    predictions: list[Any]
    before: list[Any] | None = None
    adapter: str | None = None
    report: dict[str, Any] | None = None


async def answer(
    runner: ModelRunner,
    question: Question,
    recipe: Recipe,
    on_step: OnStep | None = None,
    default: Adapter | None = None,
) -> Answer:
    """Answer one request: adapt where it carries examples, predict, keep the adapter.

    Args:
        runner: the model.
        question: what the request carries.
        recipe: how to adapt, if there are examples.
        on_step: called with each step taken.
        default: the adapter of a request that names none, wherever its labels are the request's.

    Raises:
        InputError: something in the request does not fit.
        WeightsError: the named adapter is damaged or another model's.
        AdaptationError: a gradient step could not be taken.
    """
    if not question.texts:
        raise InputError("no text: set `text`, or `texts` for several.")
    named = find_adapter(runner, question.adapter)
    examples = read_request_examples(question.examples) if question.examples else []
    labels = _labels(question, examples, named)
    begin = named or _fitting(default, labels)
    if examples:
        return await _adapt_and_answer(runner, question.texts, examples, recipe, on_step, begin)
    if begin is None and len(set(labels)) < _FEWEST_LABELS:
        raise InputError(
            f"labels is {list(labels)!r}; at least {_FEWEST_LABELS} different names are "
            "needed. Set `labels`, send `examples`, or name an `adapter`."
        )
    predictions = await runner.predict_async(question.texts, begin, labels)
    return Answer(predictions, adapter=begin.id if begin else None)


async def _adapt_and_answer(  # noqa: PLR0913 - what `answer` has sorted out
    runner: ModelRunner,
    texts: Sequence[str],
    examples: Sequence[Example],
    recipe: Recipe,
    on_step: OnStep | None,
    begin: Adapter | None,
) -> Answer:
    labels = tuple(dict.fromkeys(example.target for example in examples))
    before = await runner.predict_async(texts, begin, labels)
    done = await runner.adapt_async(examples, recipe, on_step, begin=begin)
    predictions = await runner.predict_async(texts, done.adapter)
    report = done.report.to_json() | {"stored": keep(runner, done.adapter)}
    return Answer(predictions, before, done.adapter.id, report)


def _labels(
    question: Question, examples: Sequence[Example], named: Adapter | None
) -> tuple[str, ...]:
    """The request's label set: it may come from three places, which must agree."""
    found = {
        "labels": tuple(dict.fromkeys(question.labels)),
        "examples": tuple(dict.fromkeys(example.target for example in examples)),
        "adapter": named.labels if named else (),
    }
    given = {place: labels for place, labels in found.items() if labels}
    (first, labels), *others = given.items() or [("labels", ())]
    for place, other in others:
        if set(other) != set(labels):
            raise InputError(
                f"`{first}` has the labels {list(labels)!r}, but `{place}` has {list(other)!r}. "
                "Send only one of them, or make them agree."
            )
    return labels


def _fitting(default: Adapter | None, labels: Sequence[str]) -> Adapter | None:
    """The default adapter, unless the request is about other labels."""
    if default is None or (labels and set(labels) != set(default.labels)):
        return None
    return default


def train(
    runner: ModelRunner, examples: str, recipe: Recipe, on_step: OnStep | None = None
) -> tuple[Path, dict[str, Any]]:
    """Make a persistent adapter; a run that was killed goes on where it stopped.

    Returns:
        The adapter's file, and the report with the adapter's id, to name in predictions.

    Raises:
        InputError: the examples or the recipe do not fit.
        AdaptationError: a gradient step could not be taken.
        StoreError: a checkpoint or the adapter could not be written.
    """
    labelled, checkpoint = _begin(runner, examples, recipe)
    done = runner.adapt(labelled, recipe, on_step, checkpoint=checkpoint)
    return _store(runner, done, checkpoint)


async def train_async(
    runner: ModelRunner, examples: str, recipe: Recipe, on_step: OnStep | None = None
) -> tuple[Path, dict[str, Any]]:
    """As `train`, from an event loop."""
    labelled, checkpoint = _begin(runner, examples, recipe)
    done = await runner.adapt_async(labelled, recipe, on_step, checkpoint=checkpoint)
    return _store(runner, done, checkpoint)


def _begin(runner: ModelRunner, examples: str, recipe: Recipe) -> tuple[list[Example], Path]:
    labelled = read_request_examples(examples)
    key = _run_key(runner, labelled, recipe)
    folder = runner.settings.weights_dir / "checkpoints"
    return labelled, folder / f"{key}.safetensors"


def _store(runner: ModelRunner, done: Adaptation, checkpoint: Path) -> tuple[Path, dict[str, Any]]:
    path = runner.store.put(done.adapter)
    checkpoint.unlink(missing_ok=True)  # only now: a kill in between goes on from it
    return path, done.report.to_json() | {"adapter": done.adapter.id}


def read_request_examples(source: str) -> list[Example]:
    """The labelled texts in a request's `examples`: inline, or behind a URL."""
    try:
        return parse_examples(read_url(source) if is_url(source) else source)
    except InputError as error:
        raise InputError(f"examples: {error}") from error


def find_adapter(runner: ModelRunner, reference: str) -> Adapter | None:
    """The adapter that a request names: by id, or by a URL of its file; "" is None."""
    if not reference:
        return None
    if is_url(reference):
        return adapter_from_bytes(read_url(reference), reference[:60])
    return runner.store.get(reference)


def default_adapter(reference: str | None) -> Adapter | None:
    """The adapter that a process starts with: COG_WEIGHTS, a path or URL, or nothing."""
    if not reference:
        return None
    if is_url(reference):
        return adapter_from_bytes(read_url(reference), reference[:60])
    return load_adapter(Path(reference))


def keep(runner: ModelRunner, adapter: Adapter) -> bool:
    """Store an adapter; a full disk costs its survival of a restart, never the answer."""
    try:
        runner.store.put(adapter)
    except StoreError as error:
        logger.warning("adapter %s is kept in memory only: %s", adapter.id, error)
        return False
    return True


def _run_key(runner: ModelRunner, examples: Sequence[Example], recipe: Recipe) -> str:
    """What makes two training runs the same: the base, the precision, examples and recipe."""
    content = [
        runner.base,
        str(runner.precision),
        [(e.input, e.target) for e in examples],
        asdict(recipe),
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
