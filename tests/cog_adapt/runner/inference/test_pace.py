"""The pace of earlier ticks says how much the next may hold."""

import time

import pytest
import torch

from cog_adapt.runner.inference.pace import TICK_SECONDS, InferencePace, costs_of, first_limit


def test_no_limit_is_known_before_the_first_tick():
    assert InferencePace(torch.device("cpu")).limit() is None


def test_a_tick_holds_what_the_pace_allows():
    pace = InferencePace(torch.device("cpu"))
    pace.record(1_000, 0.5)
    assert pace.limit() == int(2_000 * TICK_SECONDS)


def test_small_and_disturbed_ticks_lower_no_limit_and_old_ones_are_forgotten():
    pace = InferencePace(torch.device("cpu"))
    pace.record(1_000, 0.1)
    pace.record(5, 0.01)
    pace.record(1_000, 5.0)
    assert pace.limit() == int(10_000 * TICK_SECONDS)
    for _ in range(32):
        pace.record(1_000, 1.0)
    assert pace.limit() == int(1_000 * TICK_SECONDS)


@pytest.mark.parametrize(("tokens", "seconds"), [(0, 1.0), (1, 1e9), (1, 0.0)])
def test_a_tick_always_holds_something(tokens, seconds):
    pace = InferencePace(torch.device("cpu"))
    pace.record(tokens, seconds)
    limit = pace.limit()
    assert limit is not None
    assert limit >= 1


def test_the_cost_of_a_row_is_its_tokens_or_else_its_numbers():
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert costs_of({"x": torch.ones(3, 50), "attention_mask": mask}) == [2, 1, 1]
    assert costs_of({"x": torch.ones(2, 3, 4), "y": torch.ones(2)}) == [13, 13]
    assert costs_of({"x": torch.ones(0, 4)}) == []


def test_the_first_tick_is_bounded_where_tokens_are_counted():
    assert first_limit({"attention_mask": torch.ones(2, 3)}) == 512
    assert first_limit({"x": torch.ones(2, 3)}) is None


def test_a_cpu_is_timed_by_what_the_thread_did_and_another_device_by_the_clock():
    assert InferencePace(torch.device("cpu")).clock is time.thread_time
    assert InferencePace(torch.device("cuda")).clock is time.monotonic
