"""A linear head on features: its outputs, and the head of scaled and calibrated ones."""

from dataclasses import dataclass

from torch import Tensor

from cog_adapt.runner.heads.calibration import Calibration


@dataclass(frozen=True)
class LinearHead:
    """Outputs are features times weightᵀ plus bias: (N, D) to (N, K)."""

    weight: Tensor
    bias: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """Return outputs (N, K)."""
        return features @ self.weight.T + self.bias

    def scaled(self, scale: float) -> "LinearHead":
        """Return the head of outputs `scale` times as large."""
        return LinearHead(self.weight * scale, self.bias * scale)

    def averaged(self, other: "LinearHead", share: float) -> "LinearHead":
        """Return the head whose outputs average this head's and, by a share, another's."""
        weight = self.weight.lerp(other.weight.to(self.weight), share)
        return LinearHead(weight, self.bias.lerp(other.bias.to(self.bias), share))

    def calibrated(self, calibration: Calibration) -> "LinearHead":
        """Return the head of calibrated outputs."""
        scaled = self.scaled(calibration.scale)
        offsets = calibration.offsets.to(scaled.bias.dtype)
        return LinearHead(scaled.weight, scaled.bias + offsets)
