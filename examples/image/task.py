"""Pictures, labelled by EfficientNet-Lite0 (Tan & Le 2019, arXiv 1905.11946, Apache-2.0).

The labels are those of the examples. Only the head is trained: all pictures of a request pass the
network once. BatchNorm keeps its statistics in every method, since those of a few pictures differ;
`method="norms"` trains its scales.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cog_adapt import Batch, Example, InputError, Task, label_scores, label_set
from examples.image.network import WIDTH, load_network
from examples.image.pictures import decodes_quickly, file_of, pixel_count, pixels_of


class Pictures(Task):
    """Inputs are picture files, their bytes, base64 or data URIs; targets are names."""

    method = "head"
    head = r"_fc\..*"
    blocks = r"_conv_stem|_bn0|_blocks\.\d+|_conv_head|_bn1"

    def load(self) -> nn.Module:
        return load_network()

    def example(self, row: Mapping[str, Any]) -> Example:
        example = super().example(row)
        content = file_of(example.input)
        pixel_count(content)  # a mistake is named by its row
        return Example(content, str(example.target))

    def labels(self, examples: Sequence[Example]) -> tuple[str, ...]:
        return label_set(examples)

    def start(
        self, module: Any, labels: Sequence[str], examples: Sequence[Example]
    ) -> dict[str, Tensor]:
        if not labels:
            raise InputError("no labels are known. Send `examples`, or name an `adapter`.")
        zeros = torch.zeros(len(labels), WIDTH, device=module._fc.weight.device)
        return {"_fc.weight": zeros, "_fc.bias": zeros[:, 0].clone()}

    def decoding_cost(self, value: Any) -> int:
        return pixel_count(value)

    def decodes_quickly(self, value: Any) -> bool:
        return decodes_quickly(value)

    def decode_input(self, value: Any) -> np.ndarray:
        return pixels_of(file_of(value))

    def encode(self, inputs: Sequence[Any]) -> Batch:
        pixels = np.stack(inputs)
        return {"x": torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1}

    def features(self, module: Any, batch: Batch) -> Tensor:
        pooled: Tensor = module.extract_features(batch["x"]).mean((2, 3))
        return pooled

    def loss(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        return F.cross_entropy(module(batch["x"]).float(), targets, reduction="none")

    def score(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        best: Tensor = module(batch["x"]).argmax(1)
        return (best == targets).float()

    def predict(
        self, module: nn.Module, batch: Batch, labels: Sequence[str], options: None
    ) -> list[Any]:
        return label_scores(module(batch["x"]).softmax(1), labels)

    def probe(self) -> list[Example]:
        return [Example(_DARK, "dark"), Example(_LIGHT, "light")]


# PNG files of two pixels
_DARK = (
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAAAAADRSSBWAAAAC0lEQVR42mNgiAIAAF0AW7sSv68AAAAASUVORK5CYII="
)
_LIGHT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAAAAADRSSBWAAAAC0lEQVR42mNY8B8AAkIBoAPyTn0AAAAASUVORK5CYII="
)
