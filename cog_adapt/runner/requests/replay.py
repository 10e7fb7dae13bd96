"""Replays an adaptation from its receipt: the same steps on the same examples, compared bit by bit.

A replay repeats the number of steps, not the time budget. This module knows no transport.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cog_adapt.runner.adaptation.first_tensors import part_of
from cog_adapt.runner.config import Recipe
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import AdapterNotFound, InputError
from cog_adapt.runner.known.receipt import Receipt
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.requests.run_facts import data_digest, differences, facts_of


@dataclass(frozen=True)
class ReplayResult:
    """The result of a replay.

    Attributes:
        expected: the adapter file's digest in the receipt; None: the base answered.
        found: the digest of the adapter made by the replay.
        steps: the number of steps taken.
        differences: facts that have changed since the receipt.
        is_promised: whether equal bits were to be expected.
        adapter: the adapter made by the replay.
    """

    expected: str | None
    found: str | None
    steps: int
    differences: tuple[str, ...]
    is_promised: bool
    adapter: Adapter | None

    @property
    def is_equal(self) -> bool:
        """Whether the adapter is the same, bit for bit."""
        return self.expected == self.found


def replay(
    runner: ModelRunner,
    receipt: Receipt,
    examples: Sequence[Example],
    begin: Adapter | None = None,
) -> ReplayResult:
    """Repeat the steps of a receipt.

    Args:
        runner: the model.
        receipt: checked by `read_receipt`.
        examples: the examples of the original adaptation.
        begin: the adapter that the original continued from; None: it is looked up in the store.

    Raises:
        InputError: the examples, the base or the adapter to begin from differ.
    """
    _check_examples(receipt, examples)
    _check_base(receipt, runner)
    begin = _begin_of(receipt, runner, begin)
    done = runner.adapt(examples, _recipe_of(receipt), begin=begin)
    now = facts_of(runner)
    found = tuple(differences(receipt, now))
    exact = all((each.get("determinism") or {}).get("bit_for_bit") for each in (receipt, now))
    exact = exact and receipt["report"].get("bit_for_bit", True)
    return ReplayResult(
        expected=(receipt["adapter"] or {}).get("digest"),
        found=hashlib.sha256(done.adapter.to_bytes()).hexdigest() if done.adapter else None,
        steps=len(done.report.steps),
        differences=found,
        is_promised=exact and not found,
        adapter=done.adapter,
    )


def _check_examples(receipt: Receipt, examples: Sequence[Example]) -> None:
    said, found = receipt["examples"]["digest"], data_digest(examples)
    if said != found:
        raise InputError(
            f"the {len(examples)} examples have the digest {found}, but the receipt's "
            f"{receipt['examples']['count']} have {said}. Give the same rows in the same order."
        )


def _check_base(receipt: Receipt, runner: ModelRunner) -> None:
    said = receipt["base"]["before"]
    if said != runner.base:
        raise InputError(
            f"the base here has the digest {runner.base}, but the receipt's had {said}. Replay it "
            "with that model."
        )


def _recipe_of(receipt: Receipt) -> Recipe:
    """Return the recipe, bounded by the number of steps taken instead of by time."""
    try:
        recipe = Recipe(**receipt["recipe"])
    except TypeError as error:
        raise InputError(
            f"the receipt's recipe cannot be read here: {error}. Use the versions that it names."
        ) from error
    report = receipt["report"]
    _check_seen(report, receipt["examples"]["count"])
    was_over = report["stop_reason"] == "budget_seconds"
    return replace(
        recipe,
        budget_seconds=None,
        stop_after=report["steps"] if was_over else report["steps"] or None,
        halve_at=report.get("halved_at"),
    )


def _check_seen(report: dict[str, Any], count: int) -> None:
    """Refuse a run whose examples were selected by time: its steps cannot be repeated."""
    seen = report["examples"] + report["held_out_examples"]
    is_unscored = report["held_out_examples"] and not report["held_out_curve"]
    if seen < count or is_unscored:
        what = "scored none of the held-out ones" if is_unscored else f"saw {seen:,} of them"
        raise InputError(
            f"the receipt's budget was over before its {count:,} examples had their turn: the run "
            f"{what}, which no replay repeats. Adapt with a longer budget_seconds."
        )


def _begin_of(receipt: Receipt, runner: ModelRunner, begin: Adapter | None) -> Adapter | None:
    started: dict[str, Any] | None = receipt["started_from"]
    if started is None:
        return None
    if begin is None:
        begin = _stored(runner, str(started["id"]))
    elif begin.id != started["id"]:
        raise InputError(
            f"the adapter to begin from is {begin.id}, but the receipt's was {started['id']}. "
            "Give that one."
        )
    if [*begin.labels] == started["labels"]:
        return begin
    return part_of(begin, started["labels"], runner.task.head)


def _stored(runner: ModelRunner, adapter_id: str) -> Adapter:
    """Find an adapter of any owner."""
    for known in runner.store.describe(None):
        if known.id == adapter_id:
            return runner.store.peek(adapter_id, known.owner)
    raise AdapterNotFound(
        f"the receipt's run continued adapter {adapter_id}, which is not in this folder. Give its "
        "file too."
    )
