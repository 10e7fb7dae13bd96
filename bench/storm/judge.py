"""Compares what clients, webhooks and the log of steps tell with what the server promises."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.storm.outcome import Outcome


def broken_promises(
    outcomes: Sequence[Outcome],
    webhooks: Mapping[str, Sequence[tuple[str, str]]],
    step_log: Path,
    seen_of_others: Sequence[str],
) -> list[str]:
    """Return a sentence for each promise that was broken; empty if none was."""
    found = [f"{each.planned.id}: {text}" for each in outcomes for text in each.broken]
    found += seen_of_others
    for each in outcomes:
        found += _broken_ends(each, webhooks.get(each.planned.id, ()))
    return found + _learnt_twice(outcomes, step_log)


def _broken_ends(outcome: Outcome, final: Sequence[tuple[str, str]]) -> list[str]:
    planned, found = outcome.planned, []
    statuses = {*outcome.ends, *(status for _, status in final)}
    if outcome.was_accepted and len(statuses) != 1:
        found.append(f"{planned.id} ({planned.purpose}) has the ends {sorted(statuses)}")
    if len({webhook_id for webhook_id, _ in final}) > 1:
        found.append(f"{planned.id}: several completed webhooks {sorted(final)}")
    if "webhook" in planned.body and outcome.was_accepted and not final:
        found.append(f"{planned.id}: no completed webhook")
    if planned.retries and "failed" in statuses:
        found.append(
            f"{planned.id} ({planned.purpose}) failed in spite of retries: {outcome.error}"
        )
    if planned.purpose != "cancel" and "canceled" in statuses:
        found.append(f"{planned.id} ({planned.purpose}) was canceled by nobody")
    if outcome.cancel not in (None, 200):
        found.append(f"{planned.id}: the cancel was answered by {outcome.cancel}")
    return found


def _learnt_twice(outcomes: Sequence[Outcome], step_log: Path) -> list[str]:
    """Return the equal adaptations that ran in two processes at once, or again after an end."""
    steps: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for line in step_log.read_text().splitlines():
        ticket, process, at = line.split()
        steps[ticket].append((float(at), process))
    ended: dict[str, float] = {}
    for each in outcomes:
        if each.planned.ticket and each.ends and each.ends[0] == "succeeded":
            ticket = each.planned.ticket
            ended[ticket] = min(each.ended_at, ended.get(ticket, each.ended_at))
    found = []
    for ticket, noted in steps.items():
        turns = [process for _, process in sorted(noted)]
        changes = [b for a, b in zip(turns, turns[1:], strict=False) if a != b]
        if any(count > 1 for count in Counter([turns[0], *changes]).values()):
            found.append(f"ticket {ticket} was learnt by two processes at once")
        if ticket in ended and any(at > ended[ticket] for at, _ in noted):
            found.append(f"ticket {ticket} was learnt again after its end")
    return found


def counts(outcomes: Sequence[Outcome], webhooks: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return rows: what was counted, and how often."""
    rows: Counter[str] = Counter()
    for each in outcomes:
        end = each.ends[-1] if each.ends else "no end"
        rows[f"{each.planned.purpose}: {end}"] += 1
        if end == "failed":
            rows[f"without retries, failed: {_cause(each.error)}"] += 1
        for status, count in each.refused.items():
            rows[f"asked again after {status or 'a cut connection'}"] += count
    rows["webhooks, final"] = sum(len(each) for each in webhooks.values())
    rows["webhooks, final, repeated with the same id"] = sum(
        len(each) - 1 for each in webhooks.values()
    )
    return [{"what": what, "count": rows[what]} for what in sorted(rows)]


def _cause(error: str) -> str:
    return error.split(":")[0][:60] if error else "no cause"
