"""One gradient step on a replica: forward, backward, clip, update.

A step's batch may come in parts, whose gradients are added up: a part is a tick. The update is in
the last tick, or, if it writes many numbers, in ticks of its own. Both an adaptation and the
self-test take their steps here, so the test proves the code that adapts. This module knows no task,
no examples and no schedule of steps.
"""

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gradient_check.phases.determinism import repeatable_attention
from gradient_check.phases.errors import AdaptationError, ModeError, NotFiniteError
from gradient_check.phases.modes import casting, run_adaptation
from gradient_check.phases.precision import Precision
from gradient_check.phases.randomness import derive_seed, seeded

Loss = Callable[[nn.Module, Any], Tensor]
"""(module, batch) to losses of any shape; their mean is minimised."""

MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

_Seeds = tuple[int, int]
"""Seeds of a part's default generators, and of its rows': the step's, for any cut of the batch."""

_MOST_SKIPS = 30  # a float16 scale begins at 2**16, and each skip halves it
# Numbers that AdamW updates in a tick on a CPU: 22 million took 0.4 s, and 0.8 s under load.
_MOST_UPDATED = 4_000_000


class BatchPart(NamedTuple):
    """Some rows of a step's batch, as a batch of its own.

    Attributes:
        share: of the batch's rows; the weight of these rows' mean loss.
    """

    batch: Any
    share: float = 1.0


@dataclass(frozen=True)
class StepResult:
    """The result of one optimizer step.

    Attributes:
        loss: mean of the batch's losses before the update.
        gradient_norm: norm over all trainable parameters, before clipping.
        skipped: attempts before this step that overflowed in float16.
    """

    loss: float
    gradient_norm: float
    skipped: int = 0


class GradientStep:
    """Takes optimizer steps on one replica. Call it on one thread only.

    Args:
        replica: a training replica; only its trainable parameters change.
        loss: computes the batch's losses.
        make_optimizer: builds the optimizer for the replica's trainable parameters.
        precision: the device and the dtype of forwards.
        training: the names of the modules in training mode (`modules_in_training`).
        clip_norm: the largest norm of a gradient; infinity turns clipping off.
    """

    def __init__(  # noqa: PLR0913 - a step is these six things
        self,
        replica: nn.Module,
        loss: Loss,
        make_optimizer: MakeOptimizer,
        precision: Precision,
        training: frozenset[str],
        clip_norm: float = math.inf,
    ) -> None:
        self.replica = replica
        self.loss = loss
        self.precision = precision
        self.training = training
        self.clip_norm = clip_norm
        self.trained = [p for p in replica.parameters() if p.requires_grad]
        self.optimizer = make_optimizer(self.trained)
        self.scaler = torch.amp.GradScaler(precision.device.type, enabled=precision.scaled)

    def forward(self, batch: Any, seed: int) -> Tensor:  # noqa: ANN401 - any batch
        """Return the mean loss, detached, from a forward exactly like a step's; no update."""
        return self.losses(batch, seed).mean()

    def losses(self, batch: Any, seed: int) -> Tensor:  # noqa: ANN401 - any batch
        """Return the losses of `forward` before their mean is taken, in float32."""
        return run_adaptation(self._forward_only, self.replica, self.training, batch, seed)

    def gradients(self, batch: Any, seed: int) -> Tensor:  # noqa: ANN401 - any batch
        """Run forward and backward without an update; leave `.grad` set and unscaled."""
        given = (BatchPart(batch), (seed, seed), None)
        return run_adaptation(self._gradients, self.replica, self.training, *given)

    def __call__(self, batch: Any, seed: int) -> StepResult:  # noqa: ANN401 - any batch
        """Do what `ticks` does with a whole batch, at once."""
        work = self.ticks([BatchPart(batch)], seed)
        while True:
            try:
                next(work)
            except StopIteration as stop:
                result: StepResult = stop.value
                return result

    def ticks(self, parts: Sequence[BatchPart], seed: int) -> Generator[None, None, StepResult]:
        """Take one optimizer step, a part a tick; repeat an attempt that overflows in float16.

        All modes are off between two ticks. An attempt that ends before the update leaves no
        gradient.

        Args:
            parts: the parts of the batch; the parts' shares add up to 1.
            seed: the seed of the first part; the seeds of the other parts are derived from `seed`.

        Raises:
            AdaptationError: the loss or a gradient is not finite.
            ModeError: the loss has no graph.
        """
        for skipped in range(_MOST_SKIPS):
            try:
                yield from [None] * min(skipped, 1)  # each repeated attempt is a tick of its own
                result = yield from self._attempt(parts, seed)
            except BaseException:
                self.optimizer.zero_grad(set_to_none=True)
                raise
            if result is not None:
                return StepResult(*result, skipped=skipped)
        name = _nonfinite_parameter(self.replica)
        raise AdaptationError(
            f"{_MOST_SKIPS} steps in a row overflowed in float16 (parameter {name}). Use "
            "PRECISION=bf16 or fp32."
        )

    def _attempt(
        self, parts: Sequence[BatchPart], seed: int
    ) -> Generator[None, None, tuple[float, float] | None]:
        """Add up the parts' gradients, then update; None after an overflow in float16."""
        last = len(parts) - 1
        loss: Tensor | None = None
        for number in range(last):
            given = (parts[number], (_seed_of(seed, number), seed), loss)
            loss = run_adaptation(self._accumulate, self.replica, self.training, *given)
            yield None
        given = (parts[last], (_seed_of(seed, last), seed), loss)
        slices = self._slices()
        if len(slices) == 1:
            return run_adaptation(self._update, self.replica, self.training, *given)
        loss = run_adaptation(self._gradients, self.replica, self.training, *given)
        yield None
        numbers = run_adaptation(self._clip, self.replica, self.training, loss)
        gradients = [p.grad for p in self.trained]
        for some in slices:
            yield None
            run_adaptation(self._update_slice, self.replica, self.training, some, gradients)
        return numbers

    def _forward_only(self, module: nn.Module, batch: Any, seed: int) -> Tensor:  # noqa: ANN401
        with _repeatable((seed, seed), self.precision), casting(self.precision):
            return self.loss(module, batch).float()

    def _accumulate(
        self, module: nn.Module, part: BatchPart, seeds: _Seeds, earlier: Tensor | None
    ) -> Tensor:
        """Add a part's gradients to those of the earlier parts; return the loss so far."""
        if earlier is None:
            self.optimizer.zero_grad(set_to_none=True)
        with _repeatable(seeds, self.precision):
            with casting(self.precision):
                loss = self.loss(module, part.batch).float().mean()
                loss = loss if part.share == 1.0 else loss * part.share
            if not loss.requires_grad:
                raise ModeError(
                    "the loss has no graph although gradients are on: something between the "
                    "parameters and the loss cut it. Run the self-test, which names the line."
                )
            self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        return loss.detach() if earlier is None else earlier + loss.detach()

    def _gradients(
        self, module: nn.Module, part: BatchPart, seeds: _Seeds, earlier: Tensor | None
    ) -> Tensor:
        loss = self._accumulate(module, part, seeds, earlier)
        self.scaler.unscale_(self.optimizer)
        return loss

    def _update(
        self, module: nn.Module, part: BatchPart, seeds: _Seeds, earlier: Tensor | None
    ) -> tuple[float, float] | None:
        loss = self._gradients(module, part, seeds, earlier)
        norms = self._clip(module, loss)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return norms if math.isfinite(norms[1]) else None

    def _clip(self, _: nn.Module, loss: Tensor) -> tuple[float, float]:
        """Clip the gradients; return the loss and their norm before clipping."""
        reached = [p for p in self.trained if p.grad is not None]
        norm = nn.utils.get_total_norm([_values(p.grad) for p in reached if p.grad is not None])
        numbers = torch.stack([loss, norm.to(loss)]).tolist()  # the step's only wait for the device
        self._check_finite(*numbers)
        if math.isfinite(numbers[1]) and self.clip_norm < math.inf:
            nn.utils.clip_grads_with_norm_(reached, self.clip_norm, norm)
        return numbers[0], numbers[1]

    def _slices(self) -> list[range]:
        """Return positions of the parameters that are updated in one tick each.

        AdamW treats every parameter separately, so slices give the same bits. A small model, a GPU,
        another optimizer or a scaled loss has one slice.
        """
        is_cut = self.precision.device.type == "cpu" and not self.precision.scaled
        if not is_cut or type(self.optimizer) is not torch.optim.AdamW:
            return [range(len(self.trained))]
        slices, first, numbers = list[range](), 0, 0
        for position, parameter in enumerate(self.trained):
            if numbers and numbers + parameter.numel() > _MOST_UPDATED:
                slices.append(range(first, position))
                first, numbers = position, 0
            numbers += parameter.numel()
        return [*slices, range(first, len(self.trained))]

    def _update_slice(self, _: nn.Module, some: range, gradients: Sequence[Tensor | None]) -> None:
        """Update some parameters; the optimizer skips those without a gradient."""
        for position, parameter in enumerate(self.trained):
            parameter.grad = gradients[position] if position in some else None
        self.optimizer.step()
        for parameter, gradient in zip(self.trained, gradients, strict=True):
            parameter.grad = gradient

    def _check_finite(self, loss: float, norm: float) -> None:
        if not math.isfinite(loss):
            raise NotFiniteError(
                f"the loss is {loss} before the update. Check the examples, or lower the learning "
                "rate."
            )
        if not math.isfinite(norm) and not self.precision.scaled:
            raise NotFiniteError(
                f"the gradient of {_nonfinite_parameter(self.replica)} is not finite. Lower the "
                "learning rate, or look for a division, logarithm or root of zero in the model."
            )


@contextmanager
def _repeatable(seeds: _Seeds, precision: Precision) -> Iterator[None]:
    """Make a forward and its backward repeatable, as far as that is promised."""
    seed, row_seed = seeds
    with seeded(seed, precision.device, row_seed), repeatable_attention(precision.device):
        yield


def _seed_of(seed: int, number: int) -> int:
    """Return the seed of a part; the first has the step's, like a whole batch."""
    return derive_seed(seed, "part", number) if number else seed


def _values(gradient: Tensor) -> Tensor:
    """Return the values of a gradient; for a sparse one, the values that it stores."""
    return gradient.coalesce().values() if gradient.is_sparse else gradient


def _nonfinite_parameter(replica: nn.Module) -> str:
    for name, parameter in replica.named_parameters():
        gradient = parameter.grad
        if gradient is not None and not torch.isfinite(_values(gradient)).all():
            return name
    return "(none now)"
