"""Features of a frozen model: computed by its task, a batch at a time."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cog_adapt.runner.task.decoding import encoded
from cog_adapt.runner.task.task import Task, on_device

_BATCH = 32


class FrozenFeatures:
    """The inputs of a task's head.

    Args:
        task: with features.
        module: its model, on the device.
    """

    def __init__(self, task: Task, module: nn.Module) -> None:
        self._task, self._module = task, module
        self._kept: dict[str, Tensor] = {}

    def computed(self, inputs: Sequence[Any]) -> Tensor:
        """Compute the features (N, D) of inputs."""
        device = next(self._module.parameters()).device
        starts = range(0, len(inputs), _BATCH)
        batches = (encoded(self._task, inputs[at : at + _BATCH]) for at in starts)
        with torch.inference_mode():
            rows = [self._of(batch, device) for batch in batches]
        return torch.cat(rows)

    def kept(self, inputs: Sequence[Any]) -> Tensor:
        """Return features, computed once for each input."""
        names = [repr(each) for each in inputs]
        missing = {n: each for n, each in zip(names, inputs, strict=True) if n not in self._kept}
        if missing:
            rows = self.computed([*missing.values()])
            self._kept |= dict(zip(missing, rows, strict=True))
        return torch.stack([self._kept[name] for name in names])

    def _of(self, batch: dict[str, Tensor], device: torch.device) -> Tensor:
        features = self._task.features(self._module, on_device(batch, device))
        assert features is not None
        return features
