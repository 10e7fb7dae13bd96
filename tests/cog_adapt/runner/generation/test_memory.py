"""How many bytes answers may keep."""

import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.inference.growing_memory import CacheNeeded, generation_memory
from cog_adapt.runner.scheduling.memory_demand import MemoryDemand
from gradient_check.phases.memory import device_memory

CPU = torch.device("cpu")


def test_the_setting_bounds_all_answers_and_without_it_an_eighth_of_the_memory():
    assert generation_memory(RunnerSettings(generation_bytes=77), CPU) == 77
    assert generation_memory(RunnerSettings(), CPU) == device_memory(CPU) // 8


def test_what_an_answer_needs_is_said_in_words():
    needed = CacheNeeded(3 * 2**20)
    assert isinstance(needed, MemoryDemand)
    assert str(needed) == "3 MB"
