"""The moving average of trained tensors (Polyak & Juditsky 1992), for losses with randomness."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from gradient_check.phases.modes import run_setup
from gradient_check.phases.replicas import Tensors

_WARM_UP = 10  # the first averages reach back over a tenth of the steps so far


class WeightAverage:
    """The average of a replica's trained parameters over its steps.

    Args:
        replica: the module in training.
        decay: share of the average that a step keeps (`Recipe.ema`).
        earlier: an interrupted run's average; empty: the replica's parameters now.
    """

    def __init__(
        self, replica: nn.Module, decay: float, earlier: Mapping[str, Tensor] | None = None
    ) -> None:
        self._decay = decay
        self._trained: Tensors = {n: p for n, p in replica.named_parameters() if p.requires_grad}
        self._average: Tensors = run_setup(self._begun, earlier or {})

    def note(self, steps: int) -> None:
        """Take the parameters into the average, after so many steps."""
        decay = min(self._decay, (1 + steps) / (_WARM_UP + steps))
        run_setup(
            torch._foreach_lerp_,
            [*self._average.values()],
            [*self._trained.values()],
            1 - decay,
        )

    def tensors(self, device: torch.device | None = None) -> Tensors:
        """Return copies of the averages by the names of the parameters."""
        return run_setup(
            lambda: {n: t.to(device or t.device, copy=True) for n, t in self._average.items()}
        )

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the replica have the averages as parameters inside."""
        trained = [*self._trained.values()]
        own = run_setup(lambda: [parameter.clone() for parameter in trained])
        run_setup(torch._foreach_copy_, trained, [*self._average.values()])
        try:
            yield
        finally:
            run_setup(torch._foreach_copy_, trained, own)

    def _begun(self, earlier: Mapping[str, Tensor]) -> Tensors:
        return {
            name: earlier.get(name, parameter).detach().to(parameter.device, copy=True)
            for name, parameter in self._trained.items()
        }
