"""The storm's judge finds each broken promise, and its clients leave work for each kill."""

from typing import Any

import pytest

from bench.storm.judge import Judge
from bench.storm.noted import Kill, Noted
from bench.storm.outcome import Outcome
from bench.storm.requests import Planned, plan

KILL = Kill("server", frozenset({7}), at=20.0, seconds=5.0)
ENDED = "The server ended while it ran."
NOT_BEGUN = "The server ended before it ran, and cannot be repeated."
CRASHED = "Worker crashed: the model process was killed by SIGKILL"


def outcome(status="succeeded", error="", purpose="prediction", **more):
    options: dict[str, Any] = {"body": {}, "waits": False, "retries": 0, "ticket": ""} | more
    planned = Planned("ada-1", "ada", purpose, **options)
    return Outcome(planned, was_accepted=True, ends=[status], error=error, ended_at=50.0)


def noted(tmp_path, *lines):
    log = tmp_path / "log"
    log.write_text("".join(f"{line}\n" for line in lines))
    return Noted.read(log)


def broken(tmp_path, seen, *lines, webhooks=None):
    return Judge([seen], webhooks or {}, noted(tmp_path, *lines), [KILL]).broken_promises()


RUN = ["begin ada/ada-1 7 10.0"]
WHOLE = [*RUN, "end ada/ada-1 7 12.0"]
AGAIN = ["begin ada/ada-1 8 25.0", "end ada/ada-1 8 26.0"]


@pytest.mark.parametrize(
    ("seen", "lines"),
    [
        (outcome(), WHOLE),
        (outcome("failed", ENDED), RUN),
        (outcome("failed", CRASHED), RUN),
        (outcome("failed", ENDED), WHOLE),  # the end was not recorded yet
        (outcome(retries=3), RUN + AGAIN),
        (outcome("failed", ENDED, retries=1), [*RUN, AGAIN[0]]),
        (outcome("failed", NOT_BEGUN, waits=True), []),
        (outcome("canceled", purpose="cancel"), RUN),
    ],
)
def test_a_kept_promise_is_not_called_broken(tmp_path, seen, lines):
    assert broken(tmp_path, seen, *lines) == []


@pytest.mark.parametrize(
    ("seen", "lines", "text"),
    [
        (outcome(), WHOLE + AGAIN, "ran 2 times with 0 retries"),
        (outcome(), RUN, "succeeded without retries though its process was killed"),
        (outcome("failed", "boom"), RUN, "failed without the cause that fits: 'boom'"),
        (outcome("failed", ENDED), ["begin ada/ada-1 8 10.0"], "failed without the cause"),
        (outcome("failed", NOT_BEGUN), [], "failed without the cause that fits"),
        (outcome("failed", ENDED, retries=1), RUN, "failed with 1 of 1 retries left"),
        (outcome("failed", "boom", retries=1), [*RUN, AGAIN[0]], "without the cause that fits"),
        (outcome(retries=1), [*WHOLE, "begin ada/ada-1 8 11.0"], "ran in two processes at once"),
        (outcome("canceled"), [], "was canceled by nobody"),
        (outcome(body={"webhook": "http://x"}), [], "has no completed webhook"),
    ],
)
def test_each_broken_promise_of_a_request_is_found(tmp_path, seen, lines, text):
    assert [text in each for each in broken(tmp_path, seen, *lines)] == [True]


def test_two_ends_and_two_webhooks_are_found(tmp_path):
    webhooks = {"ada-1": [("a", "failed"), ("b", "succeeded")]}
    found = broken(tmp_path, outcome(), *WHOLE, webhooks=webhooks)
    assert ["has the ends ['failed', 'succeeded']" in found[0], "several" in found[1]] == [True] * 2


STEPS = ["step 1 7 10.0 1", "step 1 7 12.0 1"]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["step 1 8 11.0 1", "step 1 8 13.0 1"], "was learnt twice at once"),
        (["step 1 7 11.0 2", "step 1 7 13.0 2"], "was learnt twice at once"),
        (["step 1 8 60.0 1"], "was learnt again after its end"),
    ],
)
def test_equal_adaptations_at_once_or_after_the_end_are_found(tmp_path, lines, text):
    found = broken(tmp_path, outcome(purpose="adaptation", ticket="1"), *STEPS, *lines)
    assert [text in each for each in found] == [True]


def test_learning_in_turns_is_no_fault(tmp_path):
    seen = outcome("canceled", purpose="cancel", ticket="1")
    lines = ["step 1 8 13.0 1", "step 1 7 14.0 2"]  # the earlier ones were canceled
    assert broken(tmp_path, seen, *STEPS, *lines) == []


def test_requests_hit_by_a_kill_are_counted_by_their_retries(tmp_path):
    judge = Judge([outcome("failed", ENDED)], {}, noted(tmp_path, *RUN), [KILL])
    rows = {row["what"]: row["count"] for row in judge.counts()}
    assert rows["without retries: under way in a process that was killed"] == 1
    assert rows["without retries: failed, The server ended while it ran"] == 1
    assert [row["count"] for row in judge.kill_rows()] == ["1; 5.0"]


def test_a_plan_is_the_same_for_the_same_seed_and_has_requests_of_both_kinds():
    planned = plan(200, 3, "http://x", steps=5)
    assert planned == plan(200, 3, "http://x", steps=5) != plan(200, 4, "http://x", steps=5)
    assert 20 < sum(not each.retries for each in planned) < 80
