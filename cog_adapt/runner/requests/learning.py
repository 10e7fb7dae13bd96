"""One adaptation, from its plan to its stored result; a known adaptation takes no step.

The first request for an adaptation runs it, and equal requests at the same moment share the run, or
wait until another process has ended it. This module knows no transport.
"""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from cog_adapt.adapter_metadata import Provenance
from cog_adapt.runner.adaptation.memory_estimate import Waiting
from cog_adapt.runner.config import recipe_fields
from cog_adapt.runner.errors import AdapterNotFound, NotServedError, StoreError
from cog_adapt.runner.known.receipt import sealed
from cog_adapt.runner.model.loaded_model import Adaptation
from cog_adapt.runner.model_runner import KEEP_EVERY, ModelRunner
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.requests.plan import (
    AdaptationRequest,
    AdaptationResult,
    Plan,
    decided_meanwhile,
)
from cog_adapt.runner.requests.run_facts import data_digest, facts_of
from cog_adapt.runner.scheduling.claims import Turn
from cog_adapt.runner.scheduling.shared_runs import RunStart
from cog_adapt.runner.storage.decisions import Decision

_EQUAL = Waiting("waits until another process has learned from the same examples")
_LEAST_SECONDS = 0.001  # of a budget that the wait has used up: one step is taken
_AT_THE_END = 2**62  # steps: a checkpoint is written only if a time budget cuts the run short
_Begun = RunStart[AdaptationResult] | AdaptationResult
logger = logging.getLogger(__name__)


async def learn(
    runner: ModelRunner, planned: Plan, on_progress: Callable[[Any], None]
) -> AdaptationResult:
    """Carry out a plan.

    Args:
        runner: the model.
        planned: by `plan`.
        on_progress: called on this thread with each step, including the steps of a shared run.

    Raises:
        InputError: the examples or the recipe do not fit.
        AdaptationError: a step could not be taken.
    """
    if planned.known is not None:
        runner.cache.counts["adaptations_known"] += 1
        return planned.known
    begin, runs = _in_turn(runner, planned), runner.cache.runs
    try:
        return await runs.follow(planned.run, begin, on_progress)
    finally:
        if planned.run not in runs:
            _tidy_features(runner, planned.wanted)


def _tidy_features(runner: ModelRunner, wanted: AdaptationRequest) -> None:
    """Drop the features of a failed run: no adapter will own them."""
    inputs = [example.input for example in wanted.examples]
    runner.cache.kept.discard(wanted.owner, inputs)


def _in_turn(runner: ModelRunner, planned: Plan) -> Callable[[], _Begun] | Turn[_Begun]:
    """Return how a run begins: in its turn, where equal ones may be under way elsewhere."""
    claims, wanted = runner.cache.claims, planned.wanted
    if claims is None or not planned.claim:
        return partial(_begin, runner, planned)
    return Turn(
        ask=partial(claims.ask, wanted.owner, planned.claim),
        begin=partial(_begin_in_turn, runner, planned),
        notice=_EQUAL,
        patience=wanted.recipe.budget_seconds,
    )


def _begin_in_turn(runner: ModelRunner, planned: Plan, waited: float) -> _Begun | None:
    """Begin a run; None while adapters must not be found, since others may have learned the same.

    So it is until this server has read the others' changes, or until a pause is over.
    """
    pause = runner.scheduler.pause
    if pause.is_on():
        return None
    try:
        return _begin(runner, planned, waited)
    except NotServedError:  # an equal run has ended
        return _run(runner, planned, waited) if pause.is_over() else None


def _begin(runner: ModelRunner, planned: Plan, waited: float | None = None) -> _Begun:
    """Begin a run, unless an equal run has ended since the plan was made.

    Args:
        runner: the model.
        planned: the plan.
        waited: the seconds for which another process held the claim; None: there is no other.
    """
    known = decided_meanwhile(runner, planned, by_others=waited is not None)
    return _run(runner, planned, waited) if known is None else known


def _run(runner: ModelRunner, planned: Plan, waited: float | None) -> RunStart[AdaptationResult]:
    runner.cache.counts["adaptations_run"] += 1
    wanted = planned.wanted
    every = KEEP_EVERY if wanted.survives else _AT_THE_END
    method = runner.model.resolved(wanted.recipe, wanted.begin).method
    recipe = replace(wanted.recipe, method=method)
    if waited and recipe.budget_seconds is not None:
        left = max(_LEAST_SECONDS, recipe.budget_seconds - waited)
        recipe = replace(recipe, budget_seconds=left)
    ticket = runner.submit_adaptation(
        wanted.examples,
        recipe,
        begin=planned.begin,
        checkpoint=planned.state,
        keep_every=every,
        owner=wanted.owner,
        exact=wanted.exact,
    )
    return RunStart(ticket, partial(_conclude, runner, planned))


def _conclude(runner: ModelRunner, planned: Plan, done: Adaptation) -> AdaptationResult:
    """Store a run's adapter, report and receipt."""
    if done.begin is None:
        planned = replace(planned, begin=None, started_from=None)
    wanted, key = planned.wanted, planned.key
    runner.cache.statistics.note(done.report.method, done.report.seconds, len(done.report.steps))
    is_complete = done.report.stop_reason != "budget_seconds"
    digest = data_digest(wanted.examples)
    problem = _keep(runner, done=done, wanted=wanted, made=_how_made(done, planned, digest))
    is_kept = problem is None and key is not None
    if planned.state and (is_complete or not is_kept):
        runner.checkpoints.remove(planned.state)
    report = done.report.to_json() | {"known": False, "started_from": planned.started_from}
    _bring_features(runner, planned, done)
    receipt = sealed(_facts(runner, planned=planned, done=done, digest=digest), runner.cache.signer)
    if is_kept and key is not None:
        decision = Decision(
            key=key.whole,
            family=key.family,
            adapter=done.adapter.id if done.adapter else None,
            report=report | {"stored": True},
            receipt=receipt,
            rows=key.rows,
            started_from=planned.started_from,
            is_complete=is_complete,
            state="" if is_complete or not planned.state else planned.state.stem,
        )
        _keep_decision(runner, wanted.owner, decision)
    return AdaptationResult(
        adapter=done.adapter,
        report=report | {"stored": problem is None},
        receipt=receipt,
        problem=problem,
    )


def _bring_features(runner: ModelRunner, planned: Plan, done: Adaptation) -> None:
    """Attach the examples' features to the adapter that they were computed for."""
    name = done.adapter.id if done.adapter else planned.key and planned.key.whole
    if name:
        inputs = [example.input for example in planned.wanted.examples]
        runner.cache.kept.bring(planned.wanted.owner, inputs, name)


def _keep(
    runner: ModelRunner, done: Adaptation, wanted: AdaptationRequest, made: Provenance
) -> StoreError | None:
    """Store an adapter; on a full disk it is lost at the next restart, but the answer is not."""
    if done.adapter is None:
        return None
    try:
        runner.store.put(done.adapter, wanted.owner, made)
    except StoreError as error:
        logger.warning("adapter %s is kept in memory only: %s", done.adapter.id, error)
        return error
    return None


def _keep_decision(runner: ModelRunner, owner: str, decision: Decision) -> None:
    """Store a decision, unless its adapter was removed meanwhile."""
    runner.store.decisions.keep(owner, decision)
    if decision.adapter is None:
        return
    try:
        runner.store.known(decision.adapter, owner)
    except AdapterNotFound:
        runner.store.decisions.drop(owner, decision.adapter)


def _how_made(done: Adaptation, planned: Plan, digest: str) -> Provenance:
    """Return an adapter's provenance, for its metadata."""
    report = done.report
    return Provenance(
        recipe=recipe_fields(done.recipe) | {"steps": len(report.steps)},
        examples=len(planned.wanted.examples),
        examples_digest=digest,
        score_before=report.score_before,
        score_after=report.score_after,
        parent=planned.started_from or planned.wanted.parent,
    )


def _facts(runner: ModelRunner, planned: Plan, done: Adaptation, digest: str) -> dict[str, Any]:
    begin, parent = planned.begin, planned.started_from or planned.wanted.parent
    return {
        **facts_of(runner),
        "key": planned.key.whole if planned.key else None,
        "examples": {"count": len(planned.wanted.examples), "digest": digest},
        "recipe": recipe_fields(done.recipe),
        "started_from": {"id": parent, "labels": [*begin.labels]} if begin else None,
        "report": done.report.to_json(),
        "adapter": _described(done.adapter),
    }


def _described(adapter: Adapter | None) -> dict[str, Any] | None:
    if adapter is None:
        return None
    digest = hashlib.sha256(adapter.to_bytes()).hexdigest()
    return {"id": adapter.id, "digest": digest, "labels": [*adapter.labels]}
