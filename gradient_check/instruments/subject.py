"""The objects under test: a private base, its template, a perturbed replica and the gradient step.

They are made by the same functions as in serving and adaptation. This module runs them, without
judging.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gradient_check.instruments.lent_weights import SMALL_BYTES, LentWeights
from gradient_check.instruments.lifting import Lifted
from gradient_check.instruments.moving_replica import MovingReplica
from gradient_check.instruments.portions import HeldGradients
from gradient_check.instruments.probe_loss import ProbeLoss
from gradient_check.phases.checkpointing import recompute_blocks
from gradient_check.phases.freed_memory import give_back_freed
from gradient_check.phases.gradient_step import GradientStep, MakeOptimizer, StepResult
from gradient_check.phases.modes import casting, run_adaptation, run_inference
from gradient_check.phases.precision import Precision, ServeMode
from gradient_check.phases.randomness import derive_seed, row_seeded, seeded
from gradient_check.phases.replicas import (
    changed_buffers,
    make_template,
    modules_in_training,
    serving_replica,
    training_replica,
)
from gradient_check.phases.room import has_room

_MOST_SCALINGS = 30
_AFTERWARDS = "_post_accumulate_grad_hooks"


@dataclass(frozen=True)
class CheckOptions:
    """The caller's options for the test."""

    precision: Precision
    serve_mode: ServeMode
    make_optimizer: MakeOptimizer
    checkpointing: bool
    seed: int
    thaws: bool = False  # by default a selection is tested without regard to `requires_grad`
    random_loss: bool = False


class Subject(MovingReplica):
    """The objects under test, and the ways to run them.

    Attributes:
        base: a private copy of the caller's module, frozen, in eval mode; inference runs on it.
        replica: a training replica of the base, moved off the base's values.
        step: the gradient step on the replica.
        names: the trained parameters' names; `parameters` are the replica's own.
        frozen: those of them that presently get no gradient.
    """

    def __init__(
        self,
        module: nn.Module,
        probe: Any,  # noqa: ANN401 - any pytree
        loss: ProbeLoss,
        names: list[str],
        options: CheckOptions,
    ) -> None:
        self.probe = probe
        self.loss = loss
        self.options = options
        self.names = names
        self.noise_seed = options.seed
        self.seed = derive_seed(options.seed, "gradients")
        own = dict(module.named_parameters())
        self.is_large = sum(p.nbytes for p in own.values()) > SMALL_BYTES
        copied = {} if self.is_large else {n: p.detach().clone() for n, p in own.items()}
        self.base = serving_replica(module, copied)
        self.template = make_template(self.base)
        own = dict(self.template.named_parameters())
        self.replica = training_replica(self.template, {name: own[name] for name in names})
        trained = dict(self.replica.named_parameters())
        self.parameters = {name: trained[name] for name in names}
        self.held = HeldGradients(self.parameters)
        self.weights = self._lent_weights(module) if self.is_large else None
        self.training = modules_in_training(self.replica)
        if options.checkpointing:
            recompute_blocks(self.replica)
        self.step = GradientStep(
            self.replica, loss, options.make_optimizer, options.precision, self.training
        )
        self.buffers: dict[str, Tensor] = {}
        self.frozen: frozenset[str] = frozenset()
        _carry_hooks(module, self.replica, names)

    def _lent_weights(self, module: nn.Module) -> LentWeights:
        self.held.kept = self.portions()[0] if self.names else None
        users = (self.base, self.template)
        weights = LentWeights(module, users, self.parameters)
        if has_room(self.options.precision.device, weights.private_bytes):
            weights.keep_private()
        return weights

    def serve(
        self,
        module: nn.Module,
        seed: int | None = None,
        mode: ServeMode | None = None,
        row_seed: int | None = None,
    ) -> Tensor:
        """Return the losses of `module` in the inference phase.

        Args:
            module: the base, or a replica.
            seed: the seed of all random numbers; None: only the noise of single rows is seeded.
            mode: the mode of inference; by default the caller's.
            row_seed: the seed of single rows' noise if `seed` is None; None: the subject's seed.
        """
        self.loss.seed = seed
        options, device = self.options, self.options.precision.device
        call = (self.loss, module, options.precision, mode or options.serve_mode)
        if seed is None:
            with row_seeded(self.seed if row_seed is None else row_seed, device):
                return run_inference(*call, self.probe).double()
        with seeded(seed, device):
            return run_inference(*call, self.probe).double()

    def serve_adapted(self) -> Tensor:
        """Return the losses of the replica's values, served from a replica like an adapter."""
        return self.serve(self.adapted(), self.seed)

    def adapted(self) -> nn.Module:
        """Return a frozen replica of the replica's values, like a served adapter."""
        own = dict(self.template.named_parameters())  # a forward may register others
        trained = {n: p.detach() for n, p in self.replica.named_parameters() if p.requires_grad}
        trained = {name: tensor for name, tensor in trained.items() if name in own}
        tensors = trained | changed_buffers(self.replica, self.template)
        return serving_replica(self.template, tensors)

    def evaluate(self) -> Tensor:
        """Return the replica's losses in eval mode, with gradients on."""
        self.loss.seed = self.seed
        self.thaw()
        return run_adaptation(self._evaluate, self.replica, (), self.probe).double()

    def _evaluate(self, module: nn.Module, probe: Any) -> Tensor:  # noqa: ANN401 - any pytree
        precision = self.options.precision
        with seeded(self.seed, precision.device), casting(precision):
            return self.loss(module, probe)

    def forward(self) -> float:
        """Return the mean loss of a training forward, from fixed random numbers and buffers."""
        self._ready()
        return float(self.step.forward(self.probe, self.seed))

    def gradients(self, observer: Callable[[Tensor], None] | None = None) -> float:
        """Run forward and backward; lower a float16 scale that overflows. Return the loss."""
        self.loss.observer = observer
        try:
            return self._gradients_in_range()
        finally:
            self.loss.observer = None

    def _gradients_in_range(self) -> float:
        for _ in range(_MOST_SCALINGS):
            self._ready()
            with self.held.dropping(), self.loss.lifted or nullcontext():
                loss = float(self.step.gradients(self.probe, self.seed))
            if not _lowers_scale(self.step.scaler):
                break
        return loss

    def hold(self, names: Collection[str]) -> None:
        """Take these parameters' dropped gradients again, and their neighbours'."""
        if not self.held.has(names):
            around = (each for each in self.portions() if set(names) <= set(each))
            self.held.keep(next(around, names))
            self.give_back()
            self.gradients()

    def give_back(self) -> None:
        """Return the gaps that a large module's tensors left: in MiniLM 0.4 x the weights."""
        if self.is_large:
            give_back_freed(self.options.precision.device)

    def take_step(self) -> StepResult:
        """Take a step of the optimizer with the kept gradients."""
        with self.held.dropping():
            return self.step(self.probe, self.seed)

    def _ready(self) -> None:
        """Undo the possible effects of an earlier forward: changed buffers, frozen parameters."""
        self.put_back_buffers()
        self.loss.seed = self.seed
        self.thaw()

    def thaw(self) -> None:
        """Undo a freezing by the forward; the parameters in `frozen` stay frozen."""
        for name, parameter in self.parameters.items():
            parameter.requires_grad_(name not in self.frozen)

    @contextmanager
    def elsewhere(self, number: int, names: Collection[str] = ()) -> Iterator[float]:
        """Move the replica to a nearby point for a while; yield its loss there.

        The parameters have their gradients there: in a small module all parameters, else `names`.
        """
        with (
            self.moved(self.names, salt=number),
            self.held.keeping(names),
            _put_by(self),
        ):
            yield self.gradients()

    @contextmanager
    def lifted(self, names: Collection[str] = ()) -> Iterator[float]:
        """Compute without the module's own 16-bit parts for a while; yield the loss.

        So are the gradients: all of a small module, else those of `names`.
        """
        self.loss.lifted = Lifted()
        try:
            with self.held.keeping(names), _put_by(self):
                yield self.gradients()
        finally:
            self.loss.lifted = None


@contextmanager
def _put_by(subject: Subject) -> Iterator[None]:
    """Set the gradients aside for a while; those of a large module are taken again later."""
    before = {n: p.grad for n, p in subject.parameters.items() if not subject.is_large}
    try:
        subject.held.clear()
        yield
    finally:
        for name, gradient in before.items():
            subject.parameters[name].grad = gradient


def _lowers_scale(scaler: torch.amp.GradScaler) -> bool:
    """Update the float16 scale. Return whether it fell, because the gradients overflowed."""
    if not scaler.is_enabled():
        return False
    scale = scaler.get_scale()
    scaler.update()
    return bool(scaler.get_scale() < scale)


def _carry_hooks(module: nn.Module, replica: nn.Module, names: Iterable[str]) -> None:
    """Give the replica's parameters the gradient hooks of the caller's parameters."""
    theirs, own = dict(module.named_parameters()), dict(replica.named_parameters())
    for name in names:
        for hook in (theirs[name]._backward_hooks or {}).values():
            own[name].register_hook(hook)  # type: ignore[no-untyped-call]
        for hook in (getattr(theirs[name], _AFTERWARDS, None) or {}).values():
            own[name].register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
