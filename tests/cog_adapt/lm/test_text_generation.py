"""One answer on its way."""

import torch

from cog_adapt.lm.sampling import TextOptions
from cog_adapt.lm.text_generation import TextGeneration
from tests.cog_adapt.lm.tiny import tokenizer

TOKENIZER = tokenizer()
END = TOKENIZER.eos_token_id


def growing(prompt="abc", **options):
    tokens = TOKENIZER(prompt)["input_ids"]
    return TextGeneration(
        tokens, TextOptions(**options), TOKENIZER.backend_tokenizer, {END}, token_bytes=10
    )


def logits(token):
    row = torch.zeros(512)
    row[token] = 1.0
    return row


def test_the_prompt_is_read_in_parts_then_the_last_token():
    made = growing("the quick brown fox")
    prompt = TOKENIZER("the quick brown fox")["input_ids"]
    assert made.next_tokens(2) == prompt[:2]
    assert made.next_tokens(2) == prompt[:2]  # again, until it is accepted
    made.accept(logits(5))
    assert (made.joins, made.cache.length, made.facts()["completion_tokens"]) == (False, 2, 0)
    assert made.next_tokens(100) == prompt[2:]
    made.accept(logits(70))
    assert made.joins
    assert made.next_tokens(100) == [70]
    assert made.cache.length == len(prompt)


def test_it_ends_at_its_most_tokens_or_at_the_token_that_ends_a_text():
    short = growing(max_tokens=2)
    short.next_tokens(100)
    short.accept(logits(70))
    assert not short.done
    short.accept(logits(71))
    assert short.done
    assert short.facts()["finish_reason"] == "length"
    ended = growing()
    ended.next_tokens(100)
    ended.accept(logits(END))
    assert ended.done
    assert ended.taken() is None
    assert ended.facts()["finish_reason"] == "stop"


def test_it_needs_the_bytes_of_all_its_tokens():
    made = growing("abc", max_tokens=7)
    assert made.nbytes == 10 * (len(TOKENIZER("abc")["input_ids"]) + 7)
