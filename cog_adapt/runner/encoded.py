"""The examples of an adaptation as batches on its device: tensors, targets and weights."""

from collections.abc import Sequence

import torch
from torch import Tensor

from cog_adapt.runner.row_store import RowStore
from cog_adapt.runner.start import Rows, Start
from cog_adapt.runner.task import Batch, on_device

_MULTIPLE = 16  # lengths on a GPU are multiples of this
_MEASURED = 256  # examples whose longest bounds a rounded length: a model may end there
_TARGETS = "\0targets"


class EncodedExamples:
    """The examples of a start, as batches on its device."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.device = start.precision.device
        on_cpu = self.device.type == "cpu"
        self.store = RowStore(self._encode, _TARGETS, 1 if on_cpu else _MULTIPLE)
        if not on_cpu:
            self.store.compare_lengths(range(min(len(start.examples), _MEASURED)))

    def rows(self, chosen: Sequence[int]) -> Rows:
        """Return the batch, the targets and the weights of examples by their positions."""
        tensors = on_device(self.store.gather(chosen), self.device)
        return Rows(tensors, tensors.pop(_TARGETS), self._weights(chosen), tuple(chosen))

    def _weights(self, chosen: Sequence[int]) -> Tensor | None:
        weights = self.start.weights
        if weights is None:
            return None
        return torch.tensor([weights[position] for position in chosen], device=self.device)

    def _encode(self, chosen: Sequence[int]) -> Batch:
        start = self.start
        examples = [start.examples[position] for position in chosen]
        targets = start.task.encode_targets([e.target for e in examples], start.labels)
        return {**start.task.encode([e.input for e in examples]), _TARGETS: targets}
