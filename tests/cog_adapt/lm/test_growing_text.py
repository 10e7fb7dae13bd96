"""Text grows by whole characters, and nothing of a stop string is sent."""

import random

import pytest

from cog_adapt.lm.growing_text import GrowingText
from tests.cog_adapt.lm.tiny import tokenizer

TOKENIZER = tokenizer()
BACKEND = TOKENIZER.backend_tokenizer


def told(text, stops=()):
    """The pieces as they are taken after each token, and whether a stop string came."""
    growing, pieces = GrowingText(BACKEND, stops), []
    for token in TOKENIZER(text)["input_ids"]:
        growing.add(token)
        pieces.append(growing.taken())
        if growing.stopped:
            break
    growing.end()
    pieces.append(growing.taken())
    return [piece for piece in pieces if piece is not None], growing.stopped


@pytest.mark.parametrize("text", ["plain words", "grüße, 東京 🙂🙂", " leading", "a\n\nb"])
def test_pieces_are_whole_characters_and_together_the_text(text):
    pieces, stopped = told(text)
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)
    assert not stopped


def test_bytes_of_half_a_character_at_the_end_are_left_out():
    growing = GrowingText(BACKEND)
    tokens = TOKENIZER("ok 🙂")["input_ids"]
    for token in tokens[:-1]:
        growing.add(token)
    growing.end()
    assert growing.taken() in ("ok", "ok ")


def test_special_tokens_are_no_text():
    growing = GrowingText(BACKEND)
    for token in TOKENIZER("<|user|>hi<|end|>")["input_ids"]:
        growing.add(token)
    assert growing.taken() == "hi"


def test_an_answer_ends_before_the_first_stop_string():
    pieces, stopped = told("the fox END and STOP", ["STOP", "END"])
    assert "".join(pieces) == "the fox "
    assert stopped


def test_what_only_begins_like_a_stop_string_is_sent_after_all():
    pieces, stopped = told("an EN and an END", ["ENDING"])
    assert "".join(pieces) == "an EN and an END"
    assert not stopped


def test_no_piece_ever_has_a_part_of_a_stop_string_that_came():
    draw = random.Random(0)
    for _ in range(300):
        stop = "".join(draw.choices("ab\n", k=draw.randint(1, 4)))
        text = "".join(draw.choices("ab\n", k=draw.randint(1, 20)))
        pieces, stopped = told(text, [stop])
        assert "".join(pieces) == text.split(stop)[0]
        assert stopped == (stop in text)
