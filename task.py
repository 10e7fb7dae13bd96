"""Text classification on a sentence encoder: zero-shot by label names, better with examples.

A label's head row starts as the embedding of its name, so a head without training scores by
similarity, and training continues from there. The encoder is in `encoder.py`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from cog_adapt import Batch, Example, InputError, Task, label_scores, label_set, on_device
from encoder import Encoder, checked, spoken

_SCALE = 10.0  # of a cosine: a larger one saturates the softmax and leaves no gradient


class TextClassification(Task):
    """Inputs are texts, targets are label names; for `folder` see `Encoder`."""

    lora_targets = r"encoder\..*(query|value|q_proj|v_proj)"
    blocks = r"encoder\.(\w+\.)?layers?\.\d+"
    unused = r"encoder\.pooler\..*"
    shares_forwards = True
    max_characters = 20_000

    def __init__(self, folder: str | Path | None = None) -> None:
        self._encoder = Encoder(folder)
        self._folder = self._encoder.folder  # a part of what an adaptation is known by

    def load(self) -> nn.Module:
        """Read the encoder's weights, in float32."""
        return self._encoder.load()

    def example(self, row: Mapping[str, Any]) -> Example:
        """Take a text and a label; a whole number does for a label too."""
        example = super().example(row)
        label = str(example.target) if type(example.target) is int else example.target
        label = checked("label", label, self.max_label_characters).strip()
        return Example(checked("text", example.input), label)

    def encode(self, inputs: Sequence[Any]) -> Batch:
        """Return token ids and masks (N, T), T at most 128; longer texts are cut there."""
        return self._encoder.tokens([checked(f"text {n}", t) for n, t in enumerate(inputs, 1)])

    def shortened(self, inputs: Sequence[Any]) -> Sequence[int]:
        """Return the positions of the texts that have more tokens than the model reads."""
        return self._encoder.cut(inputs)

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
        return label_scores(module(batch).softmax(-1), labels)

    def labels(self, examples: Sequence[Example]) -> tuple[str, ...]:
        """Return the labels in order of first appearance; refuse one alone."""
        return label_set(examples)

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
        names = on_device(self.encode([spoken(name) for name in labels]), device)
        rows = self.features(module, names) * _SCALE
        return {"head.weight": rows, "head.bias": rows.new_zeros(len(labels))}

    def features(self, module: nn.Module, batch: Batch) -> Tensor:
        """Return the texts' embeddings (N, width), of unit length."""
        embeddings: Tensor = module.embed(batch)  # type: ignore[operator]
        return embeddings

    def probe(self) -> list[Example]:
        """Return two sentences of different labels."""
        late, twice = "The parcel arrived two days late.", "I was charged twice for one order."
        return [Example(late, "delivery"), Example(twice, "payment")]
