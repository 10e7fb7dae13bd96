"""One forward answers pieces of several queries, each by its own adapter.

The task's `predict` is called for each piece, with a stand-in for the model whose forward returns
the piece's rows of the shared outputs. The first shared forward of a structure is compared with
each adapter's own module; if they differ, that head is never shared again. After other failures
sharing resumes (`sharing`). This module knows no request and no thread.
"""

import traceback
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from cog_adapt.runner.errors import ModeError
from cog_adapt.runner.inference.answers import Phase
from cog_adapt.runner.inference.served_adapters import ReadyAdapter
from cog_adapt.runner.inference.sharing import Sharing
from cog_adapt.runner.inference.stacked import (
    PairStacks,
    StackedHead,
    forget_widths,
    stacked_replica,
)
from cog_adapt.runner.inference.structures import Adapted, Structure, Structures
from cog_adapt.runner.modules.batch_rows import holding
from cog_adapt.runner.task.task import Batch, on_device
from gradient_check.phases.memory import free_cache, is_out_of_memory
from gradient_check.phases.modes import put_in_eval, run_inference

# share of the largest output; the batch that a row is in changes its rounding so much
TOLERANCE, TOLERANCE_16_BIT = 1e-4, 2e-2
_MOST_REPLICAS = 4
# for the stacked pairs of one layer, which live during the layer's forward
_MOST_STACK_BYTES = 64 * 2**20


@dataclass(frozen=True)
class RowGroup:
    """Some inputs of one query, with the module that answers it alone."""

    inputs: Sequence[Any]
    served: ReadyAdapter
    options: Any


Forward = Callable[[nn.Module, Sequence[int]], Tensor]


class SharedForwards:
    """The replicas that serve several adapters at once; the longest unused goes first.

    Attributes:
        replicas: by what they serve.
        proven: the structures whose rows were compared with each adapter's own.
    """

    def __init__(self, template: nn.Module, phase: Phase) -> None:
        self._template = template
        self._phase = phase
        self._structures = Structures(template, phase.task.head)
        self._found: WeakKeyDictionary[ReadyAdapter, Structure | None] = WeakKeyDictionary()
        self.replicas: OrderedDict[Structure, nn.Module] = OrderedDict()
        self.proven: set[Structure] = set()
        self._sharing = Sharing()
        self._stacks = PairStacks()

    def structure(self, served: ReadyAdapter) -> Structure | None:
        """Return the structure that others need to join; None: the adapter runs alone now."""
        return self.now(self._structure(served))

    def structure_of(self, adapter: Adapted) -> Structure | None:
        """Return an adapter's structure, whether or not it may be shared now."""
        return self._structures.of(adapter) if self._phase.task.shares_forwards else None

    def now(self, structure: Structure | None) -> Structure | None:
        """Return the structure if its forwards may be shared now, else None."""
        may = structure is not None and self._sharing.may_share(structure.head)
        return structure if may and self._phase.task.shares_forwards else None

    def note_failure(self, structure: Structure, rows: int, error: Exception) -> str:
        """Share less after a failed forward of so many rows; return in words how much less.

        If a model's rows differ from those of their own adapters (ModeError), its head is never
        shared again in this process; if memory ran out, fewer rows share; else sharing pauses.
        """
        head = structure.head
        self.replicas.clear()
        self._stacks.clear()
        self.proven = {proven for proven in self.proven if proven.head != head}
        if isinstance(error, ModeError):
            self._sharing.never(head)
            return "this model's forwards are not shared any more"
        if is_out_of_memory(error):
            traceback.clear_frames(error.__traceback__)  # the frames' locals keep activations alive
            free_cache(self._phase.precision.device)
            most = self._sharing.ran_out_of_memory(head, rows)
            return f"memory ran out with {rows} rows; at most {most} share one from now on"
        return f"sharing pauses for {self._sharing.failed(head)} forwards"

    def note_alone(self, served: ReadyAdapter) -> None:
        """Count a forward that was not shared: pauses are counted in forwards."""
        found = self._structure(served)
        if found is not None:
            self._sharing.ran_alone(found.head)

    def most_rows(self, structure: Structure) -> int:
        """Return the most rows that may share: their pairs of one layer fit the stacks' memory."""
        layers = [(self._template.get_submodule(p), rank) for p, rank, _ in structure.pairs]
        row = max((4 * rank * sum(layer.weight.shape) for layer, rank in layers), default=1)  # type: ignore[arg-type]
        return self._sharing.most_rows(structure.head, max(1, _MOST_STACK_BYTES // row))

    def answer(
        self, structure: Structure, pieces: Sequence[RowGroup], batch: Batch
    ) -> list[list[Any]]:
        """Answer each piece by its rows of one forward over `batch`, which has the rows of all.

        Raises:
            ModeError: a row differs from the answer of its adapter alone.
        """
        phase = self._phase
        replica = self._replica(structure)
        shared = _SharedForward(replica, structure, on_device(batch, phase.precision.device))
        shared.check = structure not in self.proven
        answers = run_inference(
            _answer_each, replica, phase.precision, phase.serve_mode, phase, shared, pieces
        )
        self.proven.add(structure)
        self._sharing.went_well(structure.head)
        return answers

    def rows_of(
        self, structure: Structure, holders: Sequence[ReadyAdapter], forward: Forward
    ) -> Tensor:
        """Compute the rows of one forward, each by its holder's adapter.

        Args:
            structure: that of all holders.
            holders: of the rows.
            forward: computes rows by a module; repeated calls give the same.

        Raises:
            ModeError: a row differs from the answer of its adapter alone.
        """
        replica, phase = self._replica(structure), self._phase
        how = (phase.precision, phase.serve_mode)
        alone = [
            run_inference(forward, holder.module, *how, [place])
            for place, holder in enumerate(holders)
            if structure not in self.proven
        ]
        with self._stacks.keeping(holders):
            rows = run_inference(_held_forward, replica, *how, forward, holders)
        if alone:
            _compare(rows, torch.cat(alone))
        self.proven.add(structure)
        self._sharing.went_well(structure.head)
        return rows

    def _structure(self, served: ReadyAdapter) -> Structure | None:
        if served not in self._found:
            self._found[served] = self.structure_of(served)
        return self._found[served]

    def _replica(self, structure: Structure) -> nn.Module:
        if structure not in self.replicas:
            while len(self.replicas) >= _MOST_REPLICAS:
                self.replicas.popitem(last=False)
            self.replicas[structure] = stacked_replica(self._template, structure, self._stacks)
        self.replicas.move_to_end(structure)
        return self.replicas[structure]


class _SharedForward:
    """A forward that runs when the first piece calls it, with that call's arguments."""

    def __init__(self, replica: nn.Module, structure: Structure, batch: Batch) -> None:
        self.replica = replica
        self.batch = batch
        self.check = False
        self._head = structure.head
        self._outputs: Tensor | None = None

    def outputs(self, holders: Sequence[ReadyAdapter], *, by_name: bool) -> Tensor:
        if self._outputs is None:
            forget_widths(self.replica)
            with holding(holders):
                made = self.replica(**self.batch) if by_name else self.replica(self.batch)
            if not isinstance(made, Tensor) or len(made) != len(holders):
                raise ModeError(
                    f"the model's forward gave {type(made).__name__} for {len(holders)} inputs; a "
                    "task that has `shares_forwards` needs a tensor with a row for each."
                )
            self._outputs = made
        return self._outputs

    def of_piece(self, rows: Tensor, served: ReadyAdapter) -> Tensor:
        """Cut rows to the labels of their own head, if heads differ in them.

        A head at the input, such as a learned embedding, has one width, and nothing is cut.
        """
        head = self.replica.get_submodule(self._head)
        if not isinstance(head, StackedHead) or len({*head.widths.values()}) == 1:
            return rows
        return rows[..., : head.widths[id(served)]]


class _StandIn(nn.Module):
    """The model that `Task.predict` receives: its forward returns one piece's rows."""

    def __init__(
        self, shared: _SharedForward, holders: Sequence[ReadyAdapter], rows: slice
    ) -> None:
        super().__init__()
        put_in_eval(self)
        self.shared = shared
        self.holders = holders
        self.rows = rows

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:  # noqa: ANN401 - as the task calls it
        """Return the rows of this piece, with its own labels."""
        whole = self.shared.outputs(self.holders, by_name=bool(kwargs))
        served = self.holders[self.rows.start]
        rows = self.shared.of_piece(whole[self.rows], served)
        if self.shared.check:
            own = served.module
            _compare(rows, own(*args, **kwargs))
        return rows


def _answer_each(
    _replica: nn.Module, phase: Phase, shared: _SharedForward, pieces: Sequence[RowGroup]
) -> list[list[Any]]:
    holders = [piece.served for piece in pieces for _ in piece.inputs]
    answers, first = [], 0
    for piece in pieces:
        rows = slice(first, first + len(piece.inputs))
        first = rows.stop
        batch = {name: tensor[rows] for name, tensor in shared.batch.items()}
        module = _StandIn(shared, holders, rows)
        answers.append(phase.task.predict(module, batch, piece.served.labels, piece.options))
    return answers


def _held_forward(module: nn.Module, forward: Forward, holders: Sequence[ReadyAdapter]) -> Tensor:
    forget_widths(module)
    with holding(holders):
        return forward(module, range(len(holders)))


def _compare(rows: Tensor, alone: Tensor) -> None:
    """Refuse rows that differ from those of the adapter's own module (ModeError)."""
    share = TOLERANCE if rows.dtype in (torch.float32, torch.float64) else TOLERANCE_16_BIT
    finite = alone[alone.isfinite()].abs()
    most = share * max(1.0, float(finite.max()) if finite.numel() else 0.0)
    if rows.shape != alone.shape or not torch.allclose(
        rows, alone, rtol=0.0, atol=most, equal_nan=True
    ):
        raise ModeError(
            "a shared forward gave other rows than the adapter's own module does. If the model "
            "sorts, groups or picks rows of its batch, let it declare that by "
            "`cog_adapt.batch_rows`; if rows affect each other, leave `shares_forwards` off."
        )
