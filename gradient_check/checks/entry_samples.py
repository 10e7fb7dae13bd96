"""Looks at some entries of parameters before and after a step of an optimizer."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gradient_check.instruments.noise import real

_SAMPLE = 16_384
_ROW = 4_096


class EntrySamples:
    """Entries of parameters, including the entry of the largest gradient.

    The state is the entries before a step, for comparison with the entries after the step.

    Attributes:
        sparse: the parameters with a sparse gradient.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self.parameters = parameters
        self.sparse: list[str] = []
        self._places: dict[str, int] = {}
        self._before: dict[str, Tensor] = {}

    def take(self) -> None:
        """Store entries of the parameters that the optimizer will change: those with a gradient."""
        for name, parameter in self.parameters.items():
            gradient = parameter.grad
            if gradient is not None and gradient.is_sparse:
                self.sparse.append(name)
            place = None if gradient is None else _largest(gradient)
            if place is not None:
                self._places[name] = place
                self._before[name] = _entries(parameter, place)

    def moved(self) -> dict[str, Tensor]:
        """Return how far the entries have moved."""
        own = {n: _entries(self.parameters[n], place) for n, place in self._places.items()}
        return {name: entries.sub_(self._before[name]) for name, entries in own.items()}

    def of_gradient(self, name: str) -> Tensor:
        """Return the gradient's entries."""
        gradient = self.parameters[name].grad
        return _entries(self.parameters[name] if gradient is None else gradient, self._places[name])


def _largest(gradient: Tensor) -> int | None:
    """Return the flat index of the largest entry, by rows first: no copy; None if all are 0."""
    flat = real(gradient.to_dense()).reshape(-1)
    rows = flat[: flat.numel() // _ROW * _ROW].view(-1, _ROW)
    first = 0
    if len(rows) > 1:
        sizes = torch.maximum(rows.amax(1), -rows.amin(1))
        rest = flat[rows.numel() :].abs().amax() if flat.numel() % _ROW else sizes.new_zeros(())
        first = _ROW * (len(rows) if bool(rest > sizes.amax()) else int(sizes.argmax()))
        flat = flat[first : first + _ROW]
    place = int(flat.abs().argmax()) if flat.numel() else 0
    return None if flat.numel() == 0 or float(flat[place]) == 0 else first + place


def _entries(tensor: Tensor, first: int) -> Tensor:
    """Return copies of some entries, including the one at flat index `first`."""
    flat = real(tensor.detach().to_dense()).reshape(-1)
    return torch.cat([flat[first : first + 1], flat[:_SAMPLE]])
