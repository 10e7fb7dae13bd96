"""Moves the values of a replica's parameters by reproducible noise, and back."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

from gradient_check.instruments.lent_weights import LentWeights
from gradient_check.instruments.noise import add_noise, is_nearly_zero, real, spread
from gradient_check.instruments.portions import GRADIENTS, HeldGradients, portions_of
from gradient_check.phases.randomness import derive_seed

_PERTURBATION = 0.02


class MovingReplica:
    """A replica whose trained parameters can be moved off the base's values.

    Attributes:
        buffers: the replica's, as remembered.
        names: the trained parameters' names; `parameters` are the replica's own.
        noise_seed: of all noise.
        is_large: whether only a portion's gradients are kept at a time, by `held`.
        weights: of a large module, whose values can be restored; else None, and copies are kept.
    """

    replica: nn.Module
    buffers: dict[str, Tensor]
    names: list[str]
    parameters: dict[str, nn.Parameter]
    noise_seed: int
    weights: LentWeights | None
    is_large: bool
    held: HeldGradients
    _owners: Sequence[tuple[str, nn.Module]] = ()
    _put_back_state: Callable[[], None] | None = None

    def portions(self, count: int = GRADIENTS) -> list[list[str]]:
        """Return the names in groups whose gradients are kept at a time; one for a small module."""
        return portions_of(self.parameters, count) if self.is_large else [self.names]

    def held_first(self) -> list[list[str]]:
        """Return the portions, the one with present gradients first."""
        return sorted(self.portions(), key=lambda names: not self.held.has(names))

    def perturb(self, names: Iterable[str], fraction: float = _PERTURBATION, salt: int = 0) -> None:
        """Move parameters by a fraction of their spread."""
        for number, name in enumerate(names):
            self._add_noise(name, fraction, derive_seed(self.noise_seed, salt, number))

    def settle(self, names: Iterable[str]) -> None:
        """Move parameters from the base's values to those of `perturb(self.names)`."""
        numbers = {name: number for number, name in enumerate(self.names)}
        for name in names:
            self._add_noise(name, _PERTURBATION, derive_seed(self.noise_seed, 0, numbers[name]))

    def hold_only(self, names: Sequence[str]) -> None:
        """Keep the values and gradients of these parameters of a large module; lend the others."""
        assert self.weights is not None
        self.held.keep(names)
        self.weights.lend_all_but(names)
        self.settle(names)

    def _add_noise(self, name: str, fraction: float, seed: int) -> None:
        tensor = real(self.parameters[name].detach())
        keeps_sign = is_nearly_zero(tensor)
        add_noise(tensor, fraction * spread(tensor), seed)
        if keeps_sign:  # for instance a value under a root
            tensor.abs_()

    def keep_buffers(self) -> None:
        """Remember the replica's present buffers."""
        self.buffers = {n: b.detach().clone() for n, b in self.replica.named_buffers()}
        named = self.replica.named_modules()
        self._owners = [(f"{name}.".lstrip("."), part) for name, part in named if part._buffers]

    def hold_state(self, put_back: Callable[[], None]) -> None:
        """Restore the replica's plain state, too, at each restoring of its buffers from now on."""
        self._put_back_state = put_back

    def put_back_buffers(self) -> None:
        """Undo the forwards' changes to the buffers (running statistics, power iterations)."""
        if self._put_back_state is not None:
            self._put_back_state()
        own = (  # a walk through all modules would take longer than the copies
            (self.buffers.get(f"{prefix}{name}"), buffer)
            for prefix, part in self._owners
            for name, buffer in part._buffers.items()
        )
        for kept, buffer in own:
            if kept is not None and buffer is not None and kept.shape == buffer.shape:
                buffer.detach().copy_(kept)

    @contextmanager
    def moved(
        self, names: Iterable[str], fraction: float = _PERTURBATION, salt: int = 0
    ) -> Iterator[None]:
        """Move these parameters by a fraction of their spread, for a while."""
        names = list(names)
        kept = {} if self.weights else {n: self.parameters[n].detach().clone() for n in names}
        try:
            self.perturb(names, fraction, salt)
            yield
        finally:
            for name, values in kept.items():
                self.parameters[name].detach().copy_(values)
            if self.weights:
                self.weights.put_back(names)
                self.settle(names)
