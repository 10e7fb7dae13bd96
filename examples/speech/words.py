"""The transcripts of examples, as text and as tokens, within bounds."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from cog_adapt import InputError

MOST_TOKENS, MOST_CHARACTERS = 446, 2_000


def written(target: object) -> str:
    """Return the transcript of an example.

    Raises:
        InputError: the transcript is too long, or has half a surrogate pair.
    """
    text = str(target)
    if len(text) > MOST_CHARACTERS:
        raise InputError(
            f"the target has {len(text):,} characters; the limit is {MOST_CHARACTERS:,}. Write "
            "what is said in the sound."
        )
    if not text.isascii() and text.encode(errors="replace").decode() != text:
        raise InputError("the target has half a surrogate pair, which is no character. Remove it.")
    return text


def token_rows(tokenizer: Any, targets: Sequence[Any], end: int, ignored: int) -> Tensor:
    """Return the targets' tokens with an end, (N, T); `ignored` fills the shorter rows.

    Raises:
        InputError: a target has more tokens than the decoder reads.
    """
    texts = [f" {text}" for text in targets]
    rows = tokenizer(texts, add_special_tokens=False)["input_ids"]
    if (most := max(map(len, rows), default=0)) > MOST_TOKENS:
        raise InputError(
            f"a target has {most} tokens; the decoder reads {MOST_TOKENS}. Shorten it."
        )
    return pad_sequence([torch.tensor([*row, end]) for row in rows], True, ignored)
