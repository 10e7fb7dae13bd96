"""A causal language model as a task: it learns answers, and gives those of transformers."""

import asyncio
import itertools
import math
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer

from cog_adapt.lm.causal_lm import CausalLM
from cog_adapt.lm.sampling import TextOptions
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests.few_shot import answer, stream
from tests.cog_adapt.lm.tiny import FAMILIES, write_model

PROMPTS = ["the quick fox", "what team?", "hello 東京", "x"]
PAIRS = [Example("what is the best team", "fox team"), Example("the parcel never came", "dog")]
ROWS = [{"prompt": pair.input, "completion": pair.target} for pair in PAIRS]
SURE = 8.0  # of itself: greedy choices that rounding does not change


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    made = {}

    def get(family="llama"):
        if family not in made:
            made[family] = write_model(tmp_path_factory.mktemp(family), family, scale=SURE)
        return made[family]

    return get


@pytest.fixture(scope="module")
def runner(folder_of, tmp_path_factory):
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path_factory.mktemp("weights"))
    with ModelRunner(CausalLM(folder_of()), settings) as made:
        yield made


@pytest.fixture(scope="module")
def adapters(runner):
    rates = [Recipe(max_steps=3, learning_rate=0.02, seed=seed) for seed in range(3)]
    return [runner.adapt(PAIRS, recipe).adapter for recipe in rates]


@pytest.mark.parametrize("family", [*FAMILIES])
def test_each_family_passes_the_self_test_answers_as_transformers_and_learns(
    family, folder_of, tmp_path
):
    folder = folder_of(family)
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with ModelRunner(CausalLM(folder), RunnerSettings(device="cpu", weights_dir=tmp_path)) as made:
        made.self_test().raise_if_failed()
        told = made.predict(PROMPTS, options=TextOptions(max_tokens=16))
        learned: Any = made.adapt(PAIRS, Recipe(max_steps=5, learning_rate=0.02))
        assert made.health() == ()
    losses = [step.loss for step in learned.report.steps]
    assert losses[-1] < losses[0]
    places = {name.split(".")[-2] for name in learned.adapter.tensors}
    attention_and_mlp = {"c_attn", "c_proj", "c_fc"} if family == "gpt2" else {"q_proj", "up_proj"}
    assert attention_and_mlp <= places
    for prompt, text in zip(PROMPTS, told, strict=True):
        chat = [{"role": "user", "content": prompt}]
        given = tokenizer.apply_chat_template(
            chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        out = model.generate(**given, max_new_tokens=16, do_sample=False)
        theirs = tokenizer.decode(out[0, given["input_ids"].shape[1] :], skip_special_tokens=True)
        assert theirs.removeprefix(text).strip("\ufffd") == ""  # half a character is not sent


def test_the_loss_is_that_of_the_answers_tokens_alone(runner, folder_of):
    task, model = runner.task, AutoModelForCausalLM.from_pretrained(folder_of())
    batch = task.encode([pair.input for pair in PAIRS])
    targets = task.encode_targets([pair.target for pair in PAIRS], ())
    with torch.no_grad():
        losses = task.loss(model, batch, targets)
        for row, pair in enumerate(PAIRS):
            prompt = task.encode([pair.input])["input_ids"][0].tolist()
            said = task.encode_targets([pair.target], ())[0].tolist()
            logits = model(torch.tensor([prompt + said])).logits[0]
            own = F.cross_entropy(logits[len(prompt) - 1 : -1], torch.tensor(said))
            assert losses[row].item() == pytest.approx(own.item(), abs=1e-5)


def test_answers_of_the_base_and_of_adapters_are_the_same_alone_and_together(runner, adapters):
    options = TextOptions(max_tokens=12)
    queries = [
        Query([prompt], adapter, options=options)
        for adapter, prompt in itertools.product([None, *adapters], PROMPTS)
    ]
    alone = [runner.predict(q.inputs, q.adapter, options=options)[0] for q in queries]

    async def together():
        return await asyncio.gather(*map(runner.predict_async, queries))

    assert [text for (text,) in asyncio.run(together())] == alone
    assert len(set(alone)) > len(PROMPTS)
    assert runner.model.predictions.shared.proven  # they did share forwards
    assert runner.gauges()["generation_bytes"] == 0


def test_a_seed_gives_the_same_text_whatever_else_runs(runner):
    drawn = TextOptions(max_tokens=12, temperature=1.0, top_p=0.95, seed=7)
    alone = runner.predict(PROMPTS[:1], options=drawn)[0]
    query = Query(PROMPTS[:1], options=drawn)

    async def crowded():
        others = [
            Query([prompt], options=TextOptions(max_tokens=20, temperature=1.0))
            for prompt in PROMPTS
        ]
        return (await asyncio.gather(*map(runner.predict_async, [*others, query])))[-1]

    assert asyncio.run(crowded()) == [alone]
    other = TextOptions(max_tokens=12, temperature=1.0, top_p=0.95, seed=8)
    assert runner.predict(PROMPTS[:1], options=other)[0] != alone


def test_a_stop_string_ends_an_answer_and_is_not_in_it(runner):
    whole = runner.predict(PROMPTS[:1], options=TextOptions(max_tokens=24))[0]
    stop = whole[4:7]
    facts: dict[str, Any] = {}

    async def told():
        options = TextOptions(max_tokens=24, stop=(stop,))
        query = Query(PROMPTS[:1], options=options)
        return [piece async for piece in runner.generate_async(query, facts.update)]

    pieces = asyncio.run(told())
    assert "".join(pieces) == whole.split(stop)[0]
    assert facts["finish_reason"] == "stop"


def test_what_an_answer_took_is_told(runner):
    facts: dict[str, Any] = {}

    async def told():
        query = Query(["x"], options=TextOptions(max_tokens=3))
        return [piece async for piece in runner.generate_async(query, facts.update)]

    asyncio.run(told())
    assert facts["prompt_tokens"] == runner.task.encode(["x"])["input_ids"].shape[1]
    assert (facts["completion_tokens"], facts["finish_reason"]) == (3, "length")


def test_an_answer_that_does_not_fit_the_context_is_refused(runner):
    with pytest.raises(InputError, match="reads 512 together. Send fewer"):
        runner.predict(["x"], options=TextOptions(max_tokens=512))


def test_a_long_prompt_is_read_in_parts_with_others_tokens_between(runner, monkeypatch):
    long = "the quick brown fox " * 40
    expected = runner.predict([long], options=TextOptions(max_tokens=4))
    monkeypatch.setattr("cog_adapt.lm.causal_lm.prompt_tokens", lambda device: 16)
    assert runner.predict([long], options=TextOptions(max_tokens=4)) == expected


class Scope:
    def __init__(self):
        self.context, self.metrics = {}, {}

    def record_metric(self, key, value):
        self.metrics[key] = value


def test_perplexity_is_reported_before_and_after(runner):
    recipe = Recipe(max_steps=4, learning_rate=0.02, hold_out=0.5)
    rows = [
        {"prompt": f"{n} {row['prompt']}", "completion": "dog"} for n in range(4) for row in ROWS
    ]
    options = TextOptions(max_tokens=3)
    request = Request(["x"], examples=rows, recipe=recipe, options=options)
    report: Any = asyncio.run(answer(runner, request)).report
    for when in ("before", "after"):
        assert report[f"perplexity_{when}"] == pytest.approx(math.exp(-report[f"held_out_{when}"]))
    assert report["perplexity_after"] < report["perplexity_before"]


def test_a_stream_has_its_adapter_its_report_and_what_it_took_in_the_metrics(runner):
    scope = Scope()
    recipe = Recipe(max_steps=2, learning_rate=0.01)
    options = TextOptions(max_tokens=5)
    request = Request(["x"], examples=ROWS, recipe=recipe, options=options)

    async def told():
        return [piece async for piece in stream(runner, request, scope)]

    pieces = asyncio.run(told())
    again = runner.predict(
        ["x"], runner.store.get(scope.metrics["adaptation.adapter"], ""), options=options
    )
    assert ["".join(pieces)] == again
    assert scope.metrics["adaptation.report"]["perplexity_before"] is None  # nothing was held out
    assert scope.metrics["generation.completion_tokens"] == 5
    assert scope.metrics["generation.seconds_to_first_token"] > 0
