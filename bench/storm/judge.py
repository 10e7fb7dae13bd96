"""Compares what clients, webhooks and the models' log tell with what the server promises."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from bench.storm.noted import Kill, Learning, Noted, Run
from bench.storm.outcome import Outcome

_TO_NOTICE = 10.0  # seconds
_SERVER_ENDED = "The server ended while it ran."
_NOT_BEGUN = "The server ended before it ran, and cannot be repeated."
_WORKER_CRASHED = "Worker crashed: the model process "


@dataclass
class Judge:
    """What happened, and the promises that it breaks.

    Attributes:
        outcomes: what each client saw.
        webhooks: for each id, the webhook-id and status of each final webhook.
        noted: what the models did.
        kills: what was killed.
    """

    outcomes: Sequence[Outcome]
    webhooks: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    noted: Noted = field(default_factory=Noted)
    kills: Sequence[Kill] = ()

    def broken_promises(self) -> list[str]:
        """Return a sentence for each promise that was broken; empty if none was."""
        found = []
        for each in self.outcomes:
            name = f"{each.planned.id} ({each.planned.purpose})"
            texts = [*each.broken, *self._broken_ends(each), *self._broken_runs(each)]
            found += [f"{name} {text}" for text in texts]
        return found + [*self._learnt_twice()]

    def _broken_ends(self, outcome: Outcome) -> Iterator[str]:
        planned, final = outcome.planned, self.webhooks.get(outcome.planned.id, ())
        statuses = {*outcome.ends, *(status for _, status in final)}
        if outcome.was_accepted and len(statuses) != 1:
            yield f"has the ends {sorted(statuses)}"
        if len({webhook_id for webhook_id, _ in final}) > 1:
            yield f"has several completed webhooks: {sorted(final)}"
        if "webhook" in planned.body and outcome.was_accepted and not final:
            yield "has no completed webhook"
        if planned.purpose != "cancel" and "canceled" in statuses:
            yield "was canceled by nobody"
        if outcome.cancel not in (None, 200):
            yield f"was to be canceled, which was answered by {outcome.cancel}"

    def _broken_runs(self, outcome: Outcome) -> Iterator[str]:
        """Tell what is wrong with how often it ran, and with its failure or the lack of one."""
        planned, runs = outcome.planned, self._runs(outcome)
        if len(runs) > 1 + planned.retries:
            yield f"ran {len(runs)} times with {planned.retries} retries"
        if any(self._end_of(a) > b.began for a, b in pairwise(runs)):
            yield "ran in two processes at once"
        has_failed = "failed" in outcome.ends
        if planned.retries and has_failed and len(runs) <= planned.retries:
            left = 1 + planned.retries - len(runs)
            yield f"failed with {left} of {planned.retries} retries left: {outcome.error}"
        elif not planned.retries and "succeeded" in outcome.ends and self.was_hit(outcome):
            yield "succeeded without retries though its process was killed"
        elif has_failed and not self._is_explained(outcome):
            yield f"failed without the cause that fits: {outcome.error!r}"

    def _is_explained(self, outcome: Outcome) -> bool:
        """Return whether a failure names what happened: a kill, perhaps just after its last line.

        Where only its client waited for it, and it had not begun, it ends with its server.
        """
        if any(
            run.may_have_lost_its_end(kill) for run in self._runs(outcome) for kill in self.kills
        ):
            return outcome.error == _SERVER_ENDED or outcome.error.startswith(_WORKER_CRASHED)
        return outcome.error == _NOT_BEGUN and not outcome.planned.is_accepted_for_good

    def _runs(self, outcome: Outcome) -> Sequence[Run]:
        return self.noted.runs.get(outcome.planned.run_id, ())

    def was_hit(self, outcome: Outcome) -> bool:
        """Return whether a kill ended a run of it."""
        final = [kill for kill in self.kills if kill.is_final]
        return any(run.was_hit_by(kill) for run in self._runs(outcome) for kill in final)

    def _end_of(self, run: Run) -> float:
        """Return when a run was over: by itself, or by the kill of its process.

        A run in a process that stood still, and that soon noticed what it had lost, ended when the
        process stopped.
        """
        hits = [kill for kill in self.kills if run.was_hit_by(kill)]
        ends = [each.at for each in hits if each.is_final or run.ended < each.over_at + _TO_NOTICE]
        return min([run.ended, *ends])

    def _learnt_twice(self) -> Iterator[str]:
        """Tell which equal adaptations ran at once, or again after an end."""
        ended: dict[str, float] = {}
        for each in self.outcomes:
            if each.planned.ticket and each.ends and each.ends[0] == "succeeded":
                ticket = each.planned.ticket
                ended[ticket] = min(each.ended_at, ended.get(ticket, each.ended_at))
        by_ticket: dict[str, list[Learning]] = defaultdict(list)
        for learning in self.noted.learnings:
            by_ticket[learning.ticket].append(learning)
        for ticket, learnings in by_ticket.items():
            if any(a.last > b.first for a, b in pairwise(learnings)):
                yield f"ticket {ticket} was learnt twice at once: {learnings}"
            if ticket in ended and any(each.last > ended[ticket] for each in learnings):
                yield f"ticket {ticket} was learnt again after its end: {learnings}"

    def counts(self) -> list[dict[str, Any]]:
        """Return rows: what was counted, and how often."""
        rows: Counter[str] = Counter()
        for each in self.outcomes:
            retries = "with retries" if each.planned.retries else "without retries"
            end = each.ends[-1] if each.ends else "no end"
            rows[f"{each.planned.purpose}: {end}"] += 1
            rows["ended after its client had given up"] += each.is_late
            rows[f"{retries}: sent"] += 1
            rows[f"{retries}: under way in a process that was killed"] += self.was_hit(each)
            rows[f"{retries}: ran more than once"] += len(self._runs(each)) > 1
            if end == "failed" and len(self._runs(each)) > each.planned.retries > 0:
                rows[f"{retries}: failed, all retries were used up"] += 1
            elif end == "failed":
                rows[f"{retries}: failed, {_cause(each.error)}"] += 1
            for status, count in each.refused.items():
                rows[f"asked again after {status or 'a cut connection'}"] += count
        rows["webhooks, final"] = sum(len(each) for each in self.webhooks.values())
        rows["webhooks, final, repeated with the same id"] = sum(
            len(each) - 1 for each in self.webhooks.values()
        )
        return [{"what": what, "count": rows[what]} for what in sorted(rows)]

    def kill_rows(self) -> list[dict[str, Any]]:
        """Return a row for each kill: what was under way, and how soon all were ready again."""
        names = [each.planned.run_id for each in self.outcomes]
        rows = []
        for number, kill in enumerate(self.kills, 1):
            hit = self.noted.count_under_way(kill, names)
            what = f"{number}, {kill.name}: runs under way; seconds until all were ready"
            rows.append({"what": what, "count": f"{hit}; {kill.seconds:.1f}"})
        return rows


def _cause(error: str) -> str:
    return error.split(", exit")[0].rstrip(".")[:80] if error else "no cause"
