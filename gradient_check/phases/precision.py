"""The device and the precision of a model, and the guard of its inference."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch

ServeMode = Literal["inference_mode", "no_grad"]

PRECISIONS: Mapping[str, torch.dtype] = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


@dataclass(frozen=True)
class Precision:
    """A device and the dtype of matrix products.

    `compute` is float32 (no autocast), bfloat16 (autocast) or float16 (autocast with a gradient
    scaler). Trained tensors are float32 in all three.
    """

    device: torch.device
    compute: torch.dtype = torch.float32

    @property
    def autocasts(self) -> bool:
        """Whether forwards run under autocast."""
        return self.compute is not torch.float32

    @property
    def scaled(self) -> bool:
        """Whether losses must be scaled, so that float16 gradients do not underflow to zero."""
        return self.compute is torch.float16

    def __str__(self) -> str:
        return f"{self.device}/{name_of(self.compute)}"


def name_of(dtype: torch.dtype) -> str:
    """Return the short name of a compute dtype: fp32, bf16 or fp16."""
    return next(name for name, value in PRECISIONS.items() if value is dtype)
