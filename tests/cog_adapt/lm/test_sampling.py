"""How the next token is chosen."""

from typing import Any

import pytest
import torch
from transformers import GenerationConfig, LlamaForCausalLM

from cog_adapt.lm.sampling import Sampler, TextOptions, processors
from cog_adapt.runner.errors import InputError
from gradient_check.tests.models import seeded_module
from tests.cog_adapt.lm.tiny import FAMILIES

LOGITS = torch.tensor([1.0, 3.0, 2.9, -1.0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", 0),
        ("temperature", -0.1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", -1),
        ("repetition_penalty", 0.0),
        ("stop", ("",)),
        ("stop", ("x",) * 17),
        ("seed", -1),
        ("seed", 2**63),
    ],
)
def test_a_value_outside_its_bounds_is_refused_by_name(name, value):
    with pytest.raises(InputError, match=f"`{name}` is .*allowed: "):
        TextOptions(**{name: value})


def test_without_a_temperature_the_likeliest_is_taken_whatever_the_seed():
    assert {Sampler(TextOptions(seed=seed)).choose([], LOGITS) for seed in range(20)} == {1}


def test_a_seed_draws_the_same_and_another_something_else():
    def drawn(seed):
        sampler = Sampler(TextOptions(temperature=1.0, seed=seed))
        return [sampler.choose([], LOGITS) for _ in range(40)]

    assert drawn(3) == drawn(3) != drawn(4)
    assert drawn(None) != drawn(None)


def test_only_the_likeliest_are_drawn_from():
    few = [TextOptions(temperature=5.0, top_k=2), TextOptions(temperature=0.5, top_p=0.8)]
    for options in few:
        sampler = Sampler(options)
        assert {sampler.choose([], LOGITS) for _ in range(200)} == {1, 2}


def test_what_came_before_is_less_likely_by_the_penalty():
    assert Sampler(TextOptions(repetition_penalty=1.5)).choose([1], LOGITS) == 2


def test_the_processors_are_those_of_transformers_generate():
    model = seeded_module(lambda: LlamaForCausalLM(FAMILIES["llama"]()))
    options = TextOptions(temperature=0.7, top_p=0.9, top_k=11, repetition_penalty=1.3)
    config = GenerationConfig(
        do_sample=True, temperature=0.7, top_p=0.9, top_k=11, repetition_penalty=1.3, max_length=9
    )
    ids, logits = torch.tensor([[5, 6, 7]]), torch.randn(1, 512)
    theirs = model._get_logits_processor(config, input_ids_seq_length=3)(ids, logits.clone())
    assert torch.equal(processors(options)(ids, logits.clone()), theirs)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("temperature", "hot", "`temperature` is 'hot'; it must be a number."),
        ("max_tokens", None, "`max_tokens` is None; it must be a whole number."),
        ("top_k", True, "`top_k` is True; it must be a whole number."),
        ("max_tokens", 2.5, "`max_tokens` is 2.5; it must be a whole number."),
        ("top_k", 0.5, "`top_k` is 0.5; it must be a whole number."),
        ("seed", "x", "`seed` is 'x'; it must be a whole number."),
        ("top_p", float("nan"), "`top_p` is nan; allowed: above 0, at most 1."),
        ("repetition_penalty", float("inf"), "`repetition_penalty` is inf; allowed: above 0."),
        ("temperature", float("inf"), "`temperature` is inf; allowed: a number from 0."),
    ],
)
def test_what_is_no_usable_number_is_refused_by_name(name, value, words):
    with pytest.raises(InputError) as refused:
        TextOptions(**{name: value})
    assert str(refused.value) == words


@pytest.mark.parametrize("temperature", [1e-320, 1e-30, 1e-5, 2.0])
@pytest.mark.parametrize("penalty", [1e-3, 1.0, 10.0])
def test_extreme_values_draw_a_token_all_the_same(temperature, penalty):
    options = TextOptions(
        temperature=temperature, top_k=10**12, top_p=1e-9, repetition_penalty=penalty, seed=1
    )
    drawn = {Sampler(options).choose([2], LOGITS * 100) for _ in range(5)}
    assert len(drawn) == 1
    cold = Sampler(TextOptions(temperature=1e-300, seed=1))
    assert {cold.choose([], LOGITS * 100) for _ in range(50)} == {1}


def test_one_text_that_ends_an_answer_is_not_taken_for_its_letters():
    a_text_of_json: Any = "END"
    assert TextOptions(stop=a_text_of_json).stop == ("END",)


def test_thousands_of_stops_are_refused_in_a_short_sentence():
    with pytest.raises(InputError, match="at most 16 texts") as refused:
        TextOptions(stop=tuple(map(str, range(10_000))))
    assert len(str(refused.value)) < 300
