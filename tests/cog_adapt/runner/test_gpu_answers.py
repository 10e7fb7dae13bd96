"""Answers that grow on a device: keys and values, draws, adapters; skipped where there is none."""

import asyncio
import gc

import pytest
import torch

from cog_adapt.lm.causal_lm import CausalLM
from cog_adapt.lm.sampling import TextOptions
from cog_adapt.runner.config import Recipe
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.inference.answers import Query
from tests.cog_adapt.devices import FIRST, LAST, NEEDS_CUDA
from tests.cog_adapt.lm.tiny import write_model

pytestmark = NEEDS_CUDA
PROMPTS = ["the quick fox", "what team?", "hello 東京"]
PAIRS = [Example("what is the best team", "fox team"), Example("the parcel never came", "dog")]
SURE = 8.0  # of itself: choices that rounding does not change
GREEDY = TextOptions(max_tokens=8)
DRAWN = TextOptions(max_tokens=8, temperature=1.0, top_p=0.95, seed=7)


@pytest.fixture
def folder(tmp_path):
    return write_model(tmp_path / "model", scale=SURE)


def held(device):
    gc.collect()
    torch.cuda.synchronize(device)
    return torch.cuda.memory_allocated(device)


def test_answers_are_those_of_the_cpu_alone_and_together_and_leave_nothing(make_runner, folder):
    here, there = (
        make_runner(CausalLM(folder), device=device, precision="fp32")
        for device in ("cpu", str(LAST))
    )
    adapter = there.adapt(PAIRS, Recipe(max_steps=3, learning_rate=0.02)).adapter
    queries = [Query([prompt], None, options=DRAWN) for prompt in PROMPTS]
    queries += [Query([prompt], adapter, options=GREEDY) for prompt in PROMPTS]
    expected = [here.predict(q.inputs, q.adapter, options=q.options) for q in queries]

    async def together():
        return await asyncio.gather(*map(there.predict_async, queries))

    assert asyncio.run(together()) == expected
    before = [held(device) for device in (FIRST, LAST)]
    streams = torch.cuda.get_rng_state_all()
    assert [there.predict(q.inputs, q.adapter, options=q.options) for q in queries] == expected
    assert [held(device) for device in (FIRST, LAST)] == before
    assert all(map(torch.equal, torch.cuda.get_rng_state_all(), streams))
    assert there.gauges()["generation_bytes"] == 0
