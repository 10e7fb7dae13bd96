"""Finds the write to a tensor that a custom function keeps on its context for backward.

`save_for_backward` would notice the write; a plain attribute does not. Runs only after a failure.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from gradient_check.diagnosis.culprits import address
from gradient_check.diagnosis.forward_diagnosis import ForwardDiagnosis
from gradient_check.diagnosis.interventions import Interventions
from gradient_check.diagnosis.stand_ins import functions_of
from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.crossing_points import replaced
from gradient_check.instruments.event import RecordedCall
from gradient_check.instruments.held_tensors import tensors_in
from gradient_check.instruments.recording import Recorder


def place_of_overwriting(
    forward: ForwardDiagnosis, interventions: Interventions, names: Collection[str]
) -> Place:
    """Return the last write to a custom function's kept tensor, if it causes wrong gradients.

    The proof is that backward gives right gradients once the function keeps copies.

    Args:
        forward: the diagnosis that records a forward.
        interventions: the interventions that repeat the gradients.
        names: the names of the parameters whose gradients are wrong.
    """
    kept: list[tuple[int, Tensor]] = []
    recorder = Recorder()
    kinds = _kinds_of(forward)
    with _watched(kinds, lambda ctx: kept.extend(_noted(ctx, recorder))):
        forward.record(recorder=recorder)
    writes = _writes_after(kept, recorder)
    if not writes:
        return NOWHERE
    with _watched(kinds, _keep_copies):
        is_cured = interventions.is_right(names)
    return writes[-1].place(forward.names) if is_cured else NOWHERE


def _kinds_of(forward: ForwardDiagnosis) -> list[Any]:
    """Return the custom functions in the graph of a forward."""
    recorder, losses = forward.record()
    del recorder
    return [] if losses is None else functions_of([losses])


def _noted(ctx: Any, recorder: Recorder) -> list[tuple[int, Tensor]]:  # noqa: ANN401
    """Return a context's kept tensors, each with the number of the next call."""
    held = tensors_in(dict(vars(ctx)))
    return [(len(recorder.events), tensor) for tensor in held]


def _writes_after(kept: Sequence[tuple[int, Tensor]], recorder: Recorder) -> list[RecordedCall]:
    """Return the calls that write to the memory of a tensor after a context has kept it."""
    since: dict[int, int] = {}
    for number, tensor in kept:
        since.setdefault(address(tensor), number)
    return [
        event
        for event in recorder.events
        if event.writes and event.inputs and event.stack.position
        if event.index >= since.get(address(event.inputs[0]), len(recorder.events))
    ]


def _keep_copies(ctx: Any) -> None:  # noqa: ANN401
    """Replace the tensors that a context keeps by copies."""
    for name, value in list(vars(ctx).items()):
        setattr(ctx, name, tree_map_only(Tensor, lambda t: t.detach().clone(), value))


@contextmanager
def _watched(kinds: Sequence[Any], see: Callable[[Any], object]) -> Iterator[None]:
    """Pass on the contexts of custom functions when their forwards have ended, for a while."""
    with ExitStack() as stack:
        for kind in kinds:
            stack.enter_context(replaced(kind, _functions_of(kind, see)))
        yield


def _functions_of(kind: Any, see: Callable[[Any], object]) -> dict[str, Callable[..., Any]]:  # noqa: ANN401
    """Return the replacement of the function that gets the context."""
    run, note = kind.forward, kind.setup_context

    def forward(ctx: Any, *args: Any) -> Any:  # noqa: ANN401 - a custom function takes anything
        result = run(ctx, *args)
        see(ctx)
        return result

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ANN401
        note(ctx, inputs, output)
        see(ctx)

    if note is torch.autograd.Function.setup_context:
        return {"forward": forward}
    return {"setup_context": setup_context}
