"""Plans an adaptation: reuse a known result, continue from an earlier one, or begin anew.

A known result is found by its key. Examples added to a known set continue from its adapter, and a
run that a budget cut short continues from its saved state. This module knows no transport and takes
no step.
"""

import hashlib
import json
import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from cog_adapt.runner.adaptation.divergence import warnings_of
from cog_adapt.runner.config import AUTO, HEAD, Recipe, recipe_fields
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import (
    AdapterNotFound,
    NotServedError,
    StoreError,
    WeightsError,
)
from cog_adapt.runner.heads.suspects import warnings_of_suspects
from cog_adapt.runner.known.adaptation_key import AdaptationKey, key_of
from cog_adapt.runner.known.receipt import Receipt
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.storage.checkpoint_folder import CheckpointFolder
from cog_adapt.runner.storage.decisions import Decision

_LATER_FIELDS = ("blocks", "stop_after", "halve_at")  # fields of a recipe
# share of the examples: started from fewer, `auto` answers worse than it does afresh
_KNOWN_SHARE = 0.75
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AdaptationRequest:
    """A request to learn from examples.

    Attributes:
        examples: the training examples.
        recipe: the method and its settings.
        owner: of the request and its adapter.
        begin: the adapter that the request names, or a selection of its labels.
        parent: the id of that adapter.
        fresh: whether known adapters of fewer examples are ignored.
        survives: whether a run that is killed continues from its last checkpoint.
        exact: whether equal examples must give equal bits, independent of earlier requests.
    """

    examples: Sequence[Example]
    recipe: Recipe
    owner: str = ""
    begin: Adapter | None = None
    parent: str | None = None
    fresh: bool = False
    survives: bool = False
    exact: bool = False

    @property
    def which(self) -> dict[str, bool]:
        """The decisions that this request may reuse."""
        return {"fresh": self.fresh, "exact": self.exact}


@dataclass(frozen=True)
class AdaptationResult:
    """The result of an adaptation.

    Attributes:
        adapter: the trained adapter; None if the base answers best.
        report: the report of the run, now or earlier; `known` says which.
        receipt: how the adapter was made.
        problem: why the disk could not store the adapter; None if the adapter is stored.
    """

    adapter: Adapter | None
    report: dict[str, Any]
    receipt: Receipt
    problem: StoreError | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on the course of the run and on doubtful labels; empty without either."""
        return warnings_of(self.report) + warnings_of_suspects(self.report)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be done for a request; `done`, `anew` and `resumable` make plans.

    Attributes:
        wanted: the adaptation that the request asks for.
        key: the adaptation's key; None if an equal request could not be recognised.
        known: the result of an earlier equal adaptation; None if steps must be taken.
        begin: the adapter to begin from.
        started_from: the id of `begin`, if the server chose it; else None.
        run: the key by which equal requests share one run.
        state: the file of the state that the run resumes from, or leaves.
        claim: the key by which processes agree on one run; "": none could be recognised.
    """

    wanted: AdaptationRequest
    key: AdaptationKey | None = None
    known: AdaptationResult | None = None
    begin: Adapter | None = None
    started_from: str | None = None
    run: Hashable = field(default_factory=object)
    state: Path | None = None
    claim: str = ""

    @classmethod
    def done(
        cls, wanted: AdaptationRequest, known: AdaptationResult, key: AdaptationKey | None = None
    ) -> Self:
        """Plan no step: the result is known."""
        return cls(wanted=wanted, key=key, known=known)

    @classmethod
    def anew(cls, wanted: AdaptationRequest) -> Self:
        """Plan a run of this request alone, which has no key for other requests to find."""
        return cls(wanted=wanted, begin=wanted.begin)

    @classmethod
    def resumable(
        cls,
        wanted: AdaptationRequest,
        key: AdaptationKey,
        smaller: Adapter | None,
        folder: CheckpointFolder,
    ) -> Self:
        """Plan a run that equal requests share, and that resumes from its state in a folder.

        Args:
            wanted: the adaptation that the request asks for.
            key: the adaptation's key.
            smaller: the known adapter of a part of the examples, which the run begins from.
            folder: the folder of the states.
        """
        started_from = smaller.id if smaller else None
        state = (wanted.owner, key.whole, started_from, *(["exact"] if wanted.exact else []))
        name = hashlib.sha256(repr(state).encode()).hexdigest()[:16]
        claimed = (key.whole, wanted.exact, wanted.recipe.budget_seconds)
        return cls(
            wanted=wanted,
            key=key,
            begin=smaller or wanted.begin,
            started_from=started_from,
            # no request gets less time than it asked for
            run=(*state, wanted.recipe.budget_seconds),
            state=folder.begin(name, wanted.owner),
            claim=hashlib.sha256(repr(claimed).encode()).hexdigest()[:32],
        )


def plan(runner: ModelRunner, wanted: AdaptationRequest) -> Plan:
    """Look for known results; reads files, so an event loop must not call it.

    Raises:
        InputError: the recipe differs from that of the adapter to begin from.
    """
    recipe = runner.model.resolved(wanted.recipe, wanted.begin)
    key = key_of(
        wanted.examples, recipe=recipe, begin=_name_of_begin(wanted), origin=runner.cache.origin
    )
    if key is None:
        return Plan.anew(wanted)
    decision = runner.store.decisions.find(wanted.owner, key.whole, **wanted.which)
    if decision and (known := _open_now(runner, wanted, decision)):
        return Plan.done(wanted, known, key)
    begins = wanted.begin is not None or wanted.fresh
    smaller = None if begins else _smaller(runner, wanted=wanted, key=key, recipe=recipe)
    planned = Plan.resumable(wanted, key, smaller=smaller, folder=runner.checkpoints)
    if wanted.survives and planned.begin is None and planned.state is not None:
        runner.checkpoints.take_over(_earlier_name(runner, wanted, recipe), planned.state)
    return planned


def plan_known(runner: ModelRunner, key: str, wanted: AdaptationRequest) -> Plan | None:
    """Return the plan for a key with a decision; None if the request must be planned anew."""
    decision = runner.store.decisions.recent(wanted.owner, key, **wanted.which)
    known = _open_now(runner, wanted, decision) if decision else None
    return None if known is None else Plan.done(wanted, known)


def decided_meanwhile(
    runner: ModelRunner, planned: Plan, *, by_others: bool = False
) -> AdaptationResult | None:
    """Return the result of an equal run that ended after this plan was made.

    Args:
        runner: the model.
        planned: the plan.
        by_others: whether the run may have ended in another process: files are read then.

    Raises:
        NotServedError: an equal run has ended, and its adapter must not be found now.
    """
    wanted, key = planned.wanted, planned.key
    if key is None:
        return None
    decisions = runner.store.decisions
    look = decisions.find if by_others else decisions.recent
    decision = look(wanted.owner, key.whole, **wanted.which)
    return _open(runner, wanted, decision) if decision else None


def _open_now(
    runner: ModelRunner, wanted: AdaptationRequest, decision: Decision
) -> AdaptationResult | None:
    """Return a decision's result; None if its adapter cannot be loaded, or must not be now."""
    try:
        return _open(runner, wanted, decision)
    except NotServedError:
        return None


def _open(
    runner: ModelRunner, wanted: AdaptationRequest, decision: Decision
) -> AdaptationResult | None:
    """Return a decision's result; None if its adapter cannot be loaded (NotServedError)."""
    try:
        adapter = runner.store.get(decision.adapter, wanted.owner) if decision.adapter else None
    except (AdapterNotFound, WeightsError):
        runner.store.decisions.drop(wanted.owner, decision.adapter or "")
        return None
    except NotServedError:
        raise
    except StoreError as error:
        logger.warning("adapter %s is made again: %s", decision.adapter, error)
        return None
    return AdaptationResult(adapter, {**decision.report, "known": True}, dict(decision.receipt))


def _smaller(
    runner: ModelRunner, wanted: AdaptationRequest, key: AdaptationKey, recipe: Recipe
) -> Adapter | None:
    """Find the adapter of the most of these examples that the recipe can continue from.

    A head in closed form is fitted to all examples at once: that is cheaper than continuing.
    """
    if recipe.method == HEAD:
        return None
    decision = runner.store.decisions.largest_part(wanted.owner, key.family, key.rows)
    known = decision and _open_now(runner, wanted, decision)
    adapter = known.adapter if known else None
    if decision is None or adapter is None:
        return None
    if recipe.method != AUTO:
        return adapter if adapter.method == recipe.method else None
    is_most = len({*decision.rows}) >= _KNOWN_SHARE * len({*key.rows})
    return adapter if is_most and adapter.method != "head" else None


def _earlier_name(runner: ModelRunner, wanted: AdaptationRequest, recipe: Recipe) -> str:
    """Return the name that versions before 0.2 gave a training, whose states are taken over."""
    content = [
        runner.base,
        str(runner.precision),
        [(e.input, e.target) for e in wanted.examples],
        {name: value for name, value in recipe_fields(recipe).items() if name not in _LATER_FIELDS},
        *([wanted.owner] if wanted.owner else []),
    ]
    return hashlib.sha256(json.dumps(content, default=repr).encode()).hexdigest()[:16]


def _name_of_begin(wanted: AdaptationRequest) -> str | None:
    """Return a name for the adapter to begin from; computing the id of a selection takes long."""
    if wanted.begin is None:
        return None
    return f"{wanted.parent}/{list(wanted.begin.labels)!r}"
