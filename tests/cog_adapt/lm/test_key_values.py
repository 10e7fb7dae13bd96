"""Keys and values of each answer, and attention over several."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from cog_adapt.lm.key_values import ATTENTION, AnswerRows, KeyValues, bytes_per_token
from gradient_check.tests.models import seeded_module
from tests.cog_adapt.lm.tiny import FAMILIES


def model_of(family, attention=ATTENTION):
    config = FAMILIES[family]()

    def made():
        return AutoModelForCausalLM.from_config(config, attn_implementation=attention)

    return seeded_module(made).eval()


@torch.no_grad()
def read(model, store, tokens):
    """Read tokens, one row; they count from then on."""
    ids = torch.tensor([tokens])
    places = store.length + torch.arange(len(tokens))[None]
    rows = AnswerRows([store], apart=False)
    out = model(input_ids=ids, position_ids=places, past_key_values=rows, use_cache=True)
    store.length += len(tokens)
    return out.logits[0]


@pytest.mark.parametrize("family", [*FAMILIES])
@torch.no_grad()
def test_rows_of_several_lengths_are_as_each_alone_without_a_cache(family):
    model, plain = model_of(family), model_of(family, "sdpa")
    texts = [[1, 2, 3], [*range(4, 30)], [7]]
    stores = [KeyValues(40) for _ in texts]
    for store, text in zip(stores, texts, strict=True):
        torch.testing.assert_close(
            read(model, store, text), plain(torch.tensor([text])).logits[0], rtol=0, atol=1e-5
        )
    for step in range(4):
        new = [10 + step, 20 + step, 30 + step]
        for _ in range(2):  # a forward may come again before its token counts
            logits = model(
                input_ids=torch.tensor(new)[:, None],
                attention_mask=torch.ones(1, 1, 1, 1, dtype=torch.bool),
                position_ids=torch.tensor([[store.length] for store in stores]),
                past_key_values=AnswerRows(stores, apart=True),
                use_cache=True,
            ).logits[:, -1]
        for row, text in enumerate(texts):
            text.append(new[row])
            stores[row].length += 1
            alone = plain(torch.tensor([text])).logits[0, -1]
            torch.testing.assert_close(logits[row], alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", [*FAMILIES])
def test_a_prompt_may_be_read_in_parts(family):
    model = model_of(family)
    whole, parts = KeyValues(30), KeyValues(30)
    expected = read(model, whole, [*range(1, 21)])[-1]
    read(model, parts, [*range(1, 8)])
    read(model, parts, [8])
    torch.testing.assert_close(read(model, parts, [*range(9, 21)])[-1], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", [*FAMILIES])
def test_the_bytes_of_a_token_are_those_that_are_held(family):
    model, store = model_of(family), KeyValues(30)
    read(model, store, [1, 2])
    assert store.nbytes == 30 * bytes_per_token(model.config)
    store.clear()
    assert store.nbytes == 0
