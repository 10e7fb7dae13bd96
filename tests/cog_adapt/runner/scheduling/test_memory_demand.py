"""What work says of the memory that it will hold."""

import pytest

from cog_adapt.runner.adaptation.memory_estimate import Needed, Waiting
from cog_adapt.runner.inference.growing_memory import CacheNeeded
from cog_adapt.runner.scheduling.memory_demand import MemoryDemand


@pytest.mark.parametrize("demand", [Needed(1, 2, 3, 4, 5), CacheNeeded(10)])
def test_adaptations_and_answers_say_what_they_need_and_how_to_need_less(demand):
    assert isinstance(demand, MemoryDemand)
    assert demand.bytes == 10
    assert demand.setting.endswith("_BYTES")
    assert demand.work in ("adaptation", "answer")
    assert demand.remedy.endswith(".")


def test_other_progress_is_none():
    assert not isinstance(Waiting("words"), MemoryDemand)
