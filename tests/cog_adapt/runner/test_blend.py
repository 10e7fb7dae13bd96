"""A request says how strongly LoRA pairs count, and adds those of a second adapter."""

import asyncio
import math
from dataclasses import replace

import pytest
import torch

from cog_adapt import ModelRunner, Query, Recipe, Request, RunnerSettings, answer
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import AdapterNotFound, InputError
from cog_adapt.runner.modules.blend import Blend
from tests.cog_adapt.models import Letters

INPUTS = ["abc", "wxyz", "lmno"]
ROWS = [{"input": "abc", "target": "low"}, {"input": "xyz", "target": "high"}]
FEW = Recipe(max_steps=3, learning_rate=0.05)


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path_factory.mktemp("weights"))
    with ModelRunner(Letters(), settings) as runner:
        yield runner


@pytest.fixture(scope="module")
def adapters(runner):
    """Two adapters with pairs, of ranks of their own, kept by their runner."""
    texts = (("abc", "xyz"), ("lmn", "opq"))
    made = []
    for rank, (low, high) in zip((2, 3), texts, strict=True):
        examples = [Example(low, "low"), Example(high, "high")]
        made.append(runner.adapt(examples, replace(FEW, rank=rank)).adapter)
        runner.store.put(made[-1], "")
    return made


def test_a_scale_leaves_an_adapter_without_pairs_as_it_is(runner):
    rows = [Example("abc", "low"), Example("xyz", "high")]
    head = runner.adapt(rows, replace(FEW, method="head")).adapter
    assert Blend(0.5).of(head) is head


def asked(runner, **values):
    return asyncio.run(answer(runner, Request(INPUTS, **values)))


def by_hand(runner, adapter, *parts):
    """The answers of a base whose weights are merged with so much of each adapter's pairs."""
    module = runner.task.load().eval()
    tensors = dict(module.named_parameters())
    tensors |= {n: t for n, t in adapter.tensors.items() if "lora_" not in n}
    for part, scale in parts:
        for name in (n.removesuffix(".lora_a") for n in part.tensors if n.endswith("lora_a")):
            product = part.tensors[f"{name}.lora_b"] @ part.tensors[f"{name}.lora_a"]
            tensors[f"{name}.weight"] = tensors[f"{name}.weight"] + 2.0 * scale * product
    with torch.inference_mode():
        return torch.func.functional_call(module, tensors, (), runner.task.encode(INPUTS))[0]


def assert_close(found, expected):
    assert torch.allclose(torch.tensor(found), expected, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 0.5, 0.0, -1.0])
def test_a_scale_is_that_of_the_pairs(runner, adapters, scale):
    first, _ = adapters
    found = asked(runner, adapter=first.id, lora_scale=scale)
    assert_close(found.predictions, by_hand(runner, first, (first, scale)))
    assert found.adapter == first.id


@pytest.mark.parametrize(("scale", "extra_scale"), [(1.0, 1.0), (0.5, -2.0), (0.0, 1.0)])
def test_the_pairs_of_a_second_adapter_are_added(runner, adapters, scale, extra_scale):
    first, second = adapters
    found = asked(
        runner,
        adapter=first.id,
        lora_scale=scale,
        extra_lora=second.id,
        extra_lora_scale=extra_scale,
    )
    assert_close(found.predictions, by_hand(runner, first, (first, scale), (second, extra_scale)))


def test_what_a_request_learns_is_scaled_for_its_answer_alone(runner, adapters):
    values = {"examples": ROWS, "recipe": replace(FEW, method="lora")}
    plain, half, again = (asked(runner, **values, lora_scale=x) for x in (1.0, 0.5, 0.5))
    assert plain.adapter == half.adapter == again.adapter
    learned = runner.store.get(plain.adapter, "")
    assert_close(plain.predictions, by_hand(runner, learned, (learned, 1.0)))
    for found in (half, again):
        assert_close(found.predictions, by_hand(runner, learned, (learned, 0.5)))
    first, _ = adapters
    both = asked(runner, **values, extra_lora=first.id)
    assert_close(both.predictions, by_hand(runner, learned, (learned, 1.0), (first, 1.0)))


def test_blends_of_several_requests_are_answered_as_alone(runner, adapters):
    first, second = adapters
    blends = [Blend(scale, second, 0.5) for scale in (0.2, 0.7, 1.0)] + [Blend(0.3), Blend()]
    queries = [Query(INPUTS, first, blend=blend) for blend in blends]
    alone = [asyncio.run(runner.predict_async(query)) for query in queries]

    async def together():
        return await asyncio.gather(*(runner.predict_async(query) for query in queries))

    for found, expected in zip(asyncio.run(together()), alone, strict=True):
        assert_close(found, torch.tensor(expected))


def test_a_removed_adapter_is_not_found_as_the_second(runner, adapters):
    first, _ = adapters
    gone = runner.adapt([Example("aa", "low"), Example("zz", "high")], FEW).adapter
    runner.store.put(gone, "")
    asked(runner, adapter=first.id, extra_lora=gone.id)
    runner.store.remove(gone.id, "")
    with pytest.raises(AdapterNotFound):
        asked(runner, adapter=first.id, extra_lora=gone.id)


@pytest.mark.parametrize("name", ["lora_scale", "extra_lora_scale"])
@pytest.mark.parametrize("scale", [math.nan, math.inf, 1e9, -101, "1"])
def test_a_scale_out_of_bounds_is_refused(runner, adapters, name, scale):
    with pytest.raises(InputError, match=f"`{name}` is .*it lies in ±100"):
        asked(runner, adapter=adapters[0].id, **{name: scale})


def test_a_second_adapter_needs_a_first_and_pairs_of_its_own(runner, adapters):
    with pytest.raises(InputError, match="`extra_lora` is added to an adapter, but the request"):
        asked(runner, extra_lora=adapters[1].id)
    with pytest.raises(InputError, match=r"`extra_lora` is the URL 'https://.*send its id"):
        asked(runner, adapter=adapters[1].id, extra_lora="https://host/lora.safetensors")
    head = runner.adapt([Example("aa", "low"), Example("zz", "high")], replace(FEW, method="head"))
    runner.store.put(head.adapter, "")
    with pytest.raises(InputError, match=r"has no LoRA pairs \(its method is 'head'\)"):
        asked(runner, adapter=adapters[0].id, extra_lora=head.adapter.id)
