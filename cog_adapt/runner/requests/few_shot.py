"""One request from end to end: adapt if it carries examples, answer, keep the adapter.

This module knows no transport and no task: neither the sender of a request nor the meaning of its
inputs.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cog_adapt.adapter_rule import Asker
from cog_adapt.runner.data.examples import ExampleSet
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.growing import GenerativeTask
from cog_adapt.runner.known.recent_requests import RecentRequest, request_digest
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.request import Request, is_large, read_request_examples
from cog_adapt.runner.requests.early_answer import EarlyAnswer
from cog_adapt.runner.requests.find_adapter import begin_of, find_adapter, find_blend
from cog_adapt.runner.requests.labels import check_scores, settle_labels
from cog_adapt.runner.requests.learning import learn
from cog_adapt.runner.requests.plan import AdaptationRequest, Plan, plan, plan_known
from cog_adapt.runner.requests.progress import Progress, Scope
from cog_adapt.runner.task.decoding import check_decoding
from cog_adapt.runner.task.errors import naming
from cog_adapt.runner.task.input_sizes import check_characters
from gradient_check.phases.determinism import require_repeatable

_SHOWN = 5


@dataclass(frozen=True)
class Answer:
    """The answer to one request.

    Attributes:
        predictions: one for each input, by the adapted weights if there were examples.
        before: answers to the same inputs before this request's adaptation; None without an
            adaptation. If the adaptation is known, `before` has the answers that the same request
            had earlier, without another forward; None if the inputs are new, or if their answers
            were dropped.
        adapter: the id to name in later requests; None: the base answered.
        report: the report of the adaptation, run now or earlier (`known`), with `warnings` and
            whether the adapter was `stored` on disk; without an adaptation the warnings alone, or
            None.
    """

    predictions: list[Any]
    before: list[Any] | None = None
    adapter: str | None = None
    report: dict[str, Any] | None = None


async def answer(runner: ModelRunner, request: Request, scope: Scope | None = None) -> Answer:
    """Answer one request.

    Args:
        runner: the model.
        request: its examples, inputs and recipe.
        scope: the scope of Cog's run: it names the owner, and receives the metrics of each step.

    Raises:
        InputError: the request has inputs, examples or settings that the model cannot use.
        WeightsError: the stored adapter is damaged or belongs to another model.
        AdaptationError: a gradient step could not be taken.
    """
    asked = await _read(runner, request, scope)
    if asked.plan is None:
        # Together: one after another, each prediction would wait for a tick of another's
        # adaptation.
        predictions, asked = await asyncio.gather(
            runner.predict_async(asked.query), _warned(runner, request, asked)
        )
        report = {"warnings": [*asked.warnings]} if asked.warnings else None
        return Answer(
            predictions=predictions, before=None, adapter=_id(asked.query.adapter), report=report
        )
    asked = await _warned(runner, request, asked)
    assert asked.plan is not None
    before = asked.before if asked.plan.known else await runner.predict_async(asked.query)
    query, report = await _adapt(runner, asked=asked, planned=asked.plan, progress=Progress(scope))
    predictions = await runner.predict_async(query)
    if before is not None and not asked.plan.known:
        runner.cache.recent.note_before(query.owner, request, before)
    return Answer(predictions=predictions, before=before, adapter=_id(query.adapter), report=report)


async def stream(
    runner: ModelRunner, request: Request, scope: Scope | None = None
) -> AsyncIterator[Any]:
    """Answer one request piece by piece; adapt first if it has examples.

    The pieces come from a `GenerativeTask` or from `Task.generate`. The adapter's id and the report
    are recorded as the metrics `adaptation.adapter` and `adaptation.report` before the first piece,
    and the cost of the answer as `generation` after the last. Raises as `answer` does.
    """
    asked = await _warned(runner, request, await _read(runner, request, scope))
    progress = Progress(scope)
    query, report = asked.query, {"warnings": [*asked.warnings]} if asked.warnings else None
    if asked.plan:
        query, report = await _adapt(runner, asked=asked, planned=asked.plan, progress=progress)
    progress.show_outcome(_id(query.adapter), report)
    async for piece in runner.generate_async(query, progress.show_generation):
        yield piece


@dataclass(frozen=True)
class _Asked:
    """A request, read.

    Attributes:
        query: the inputs, before any adaptation.
        plan: of the adaptation to the examples; None without examples.
        before: the kept answers to these inputs before the adaptation, if any.
    """

    query: Query
    plan: Plan | None
    examples: ExampleSet
    warnings: tuple[str, ...] = ()
    before: list[Any] | None = None


async def _read(runner: ModelRunner, request: Request, scope: Scope | None) -> _Asked:
    """Read a request; a large request waits for its turn among other large ones."""
    asker = runner.asker_of(scope.context if scope else {})
    check_characters(runner.task, request.inputs)
    with naming(runner.task):
        read = partial(_read_parts, runner, request, asker)
        large = is_large(request)
        asked = await runner.reading.read_async(asker.owner, read, is_large=large)
        return replace(asked, query=await runner.decoded_async(asked.query))


async def _warned(runner: ModelRunner, request: Request, asked: _Asked) -> _Asked:
    owner = asked.query.owner
    examples = await _with_cuts(runner, asked.examples, owner)
    if asked.plan and asked.plan.key:
        labels, recent = tuple(asked.query.labels), runner.cache.recent
        read = RecentRequest(asked.plan.key.whole, labels, examples.warnings)
        recent.put(owner, request_digest(request), read)
    return replace(
        asked, warnings=await _checked(runner, request=request, examples=examples, owner=owner)
    )


def _read_parts(runner: ModelRunner, request: Request, asker: Asker) -> _Asked:
    if not request.inputs:
        raise InputError("no input: the request has nothing to answer. Send at least one.")
    check_decoding(runner.task, request.inputs)
    if request.deterministic:
        require_repeatable(runner.precision.device)
    owner = asker.owner
    blend = find_blend(request, runner.store, asker)
    again = _read_again(runner, request, owner)
    if again is not None:
        return replace(again, query=replace(again.query, blend=blend))
    task = runner.task
    named = find_adapter(request, runner.store, asker, read=runner.files.read)
    examples = read_request_examples(request, task)
    check_decoding(task, request.inputs, examples.examples)
    labels = settle_labels(task, request=request, examples=examples, named=named)
    adapter = named or _fitting(runner.default, labels)
    check_scores(task, request, adapter.labels if adapter else labels)
    query = _query(request, adapter=adapter, labels=labels, owner=owner)
    query = replace(query, blend=blend)
    if not examples.examples:
        return _Asked(query, None, examples)
    wanted = AdaptationRequest(
        examples.examples,
        request.recipe,
        owner,
        begin=begin_of(task, request=request, examples=examples, adapter=adapter),
        parent=_id(adapter),
        fresh=request.fresh,
        exact=request.deterministic,
    )
    return _Asked(query, plan(runner, wanted), examples)


def _read_again(runner: ModelRunner, request: Request, owner: str) -> _Asked | None:
    """Read a request whose bytes and adaptation are both known."""
    recent = runner.cache.recent.get(owner, request_digest(request))
    if recent is None:
        return None
    fresh, exact = request.fresh, request.deterministic
    wanted = AdaptationRequest((), request.recipe, owner, fresh=fresh, exact=exact)
    known = plan_known(runner, recent.key, wanted)
    if known is None:
        return None
    check_scores(runner.task, request, recent.labels)
    adapter = _fitting(runner.default, recent.labels)
    query = _query(request, adapter=adapter, labels=recent.labels, owner=owner)
    before = recent.before_of(request)
    return _Asked(query, known, ExampleSet([], recent.warnings), before=before)


def _query(request: Request, adapter: Adapter | None, labels: Sequence[str], owner: str) -> Query:
    alone = request.deterministic
    return Query(
        inputs=request.inputs,
        adapter=adapter,
        labels=labels,
        options=request.options,
        owner=owner,
        deterministic=alone,
    )


async def _adapt(
    runner: ModelRunner, asked: _Asked, planned: Plan, progress: Progress
) -> tuple[Query, dict[str, Any]]:
    early = EarlyAnswer(runner, asked.query, progress)
    learned = await early.shown_while(learn(runner, planned, early.show))
    progress.show_receipt(learned.receipt)
    report = learned.report | {"warnings": [*asked.warnings, *learned.warnings]}
    if isinstance(runner.task, GenerativeTask):
        report |= runner.task.more_of_report(report)
    if learned.adapter is None:
        return asked.query, report
    return replace(asked.query, adapter=learned.adapter, labels=()), report


def _id(adapter: Adapter | None) -> str | None:
    return adapter.id if adapter else None


def _fitting(default: Adapter | None, labels: Sequence[str]) -> Adapter | None:
    """Return the default adapter, unless the request has other labels."""
    if default is None or (labels and set(labels) != set(default.labels)):
        return None
    return default


async def warnings_about(
    runner: ModelRunner, request: Request, examples: ExampleSet, owner: str = ""
) -> tuple[str, ...]:
    """Return warnings about the examples and the inputs.

    Raises:
        InputError: the request is strict, and there is a warning.
    """
    return await _checked(
        runner, request=request, examples=await _with_cuts(runner, examples, owner), owner=owner
    )


async def _with_cuts(runner: ModelRunner, examples: ExampleSet, owner: str) -> ExampleSet:
    """Add a warning for texts of a set that are cut."""
    rows = [example.input for example in examples.examples]
    cut = _cut("examples", await runner.shortened_async(rows, owner)) if rows else ()
    return replace(examples, warnings=(*examples.warnings, *cut))


async def _checked(
    runner: ModelRunner, request: Request, examples: ExampleSet, owner: str
) -> tuple[str, ...]:
    shortened = await runner.shortened_async(request.inputs, owner) if request.inputs else ()
    warnings = (*examples.warnings, *_cut("inputs", shortened))
    if warnings and request.strict:
        raise InputError(
            f"{'; '.join(warnings)}. Correct this, or leave `strict` out to get it in the report."
        )
    return warnings


def _cut(what: str, positions: Sequence[int]) -> list[str]:
    if not positions:
        return []
    shown = ", ".join(str(position + 1) for position in positions[:_SHOWN])
    more = f" and {len(positions) - _SHOWN} more" if len(positions) > _SHOWN else ""
    return [f"{what} longer than the model reads were cut: {shown}{more}"]
