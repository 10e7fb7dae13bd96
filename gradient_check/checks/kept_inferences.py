"""Finds values that an inference computed from weights and stored outside the module.

Base and replica share a closure, a global or a class, so a fresh replica has such values too. The
values appear as inference tensors among the arguments of an eval forward.
"""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from gradient_check.checks.flow import GradientFlow
from gradient_check.diagnosis.forward_diagnosis import uncompiled
from gradient_check.diagnosis.kept_values import made_again
from gradient_check.findings.examination import attempted
from gradient_check.findings.report import Place
from gradient_check.instruments.recording import Recorder


class InferenceTensors(TorchFunctionMode):
    """Looks for inference tensors among the arguments of calls.

    Attributes:
        found: whether a call had one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 - PyTorch's protocol
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Run one call, and inspect its arguments."""
        kwargs = kwargs or {}
        if not self.found:
            leaves = tree_leaves((args, kwargs))
            self.found = any(isinstance(t, Tensor) and t.is_inference() for t in leaves)
        return func(*args, **kwargs)


def evaluated_under_watch(flow: GradientFlow) -> Tensor:
    """Return the losses of an eval forward; report its uses of an inference's values."""
    watch = InferenceTensors()
    flow.subject.loss.recorder = watch
    try:
        with uncompiled():
            losses = flow.subject.evaluate()
    finally:
        flow.subject.loss.recorder = None
    if watch.found:
        _report(flow)
    return losses


def _report(flow: GradientFlow) -> None:
    """Report a tensor that an inference computed from weights and a later forward uses."""
    place = attempted(lambda: _maker_of_stale(flow), None)
    if place is not None:
        flow.exam.add(
            "FAIL",
            "stale-forward",
            "a forward uses a value that an inference computed from other weights and stored in a "
            "closure, a global or a class. Store no value that was computed from weights.",
            module=place.module,
            line=place.line,
        )


def _maker_of_stale(flow: GradientFlow) -> Place | None:
    """Return the call that made a kept tensor and now gives other values."""
    for kept, new, recorder in made_again(flow.diagnosis.forward):
        is_stale = kept.shape == new.shape and not torch.equal(kept, new.detach())
        if is_stale and _is_of_weights(flow, recorder, new):
            return recorder.made[id(new)].place(flow.diagnosis.names)
    return None


def _is_of_weights(flow: GradientFlow, recorder: Recorder, tensor: Tensor) -> bool:
    """Return whether a recorded forward made a tensor from trained weights."""
    trains = flow.guard.requires_grad
    weights = {id(p) for name, p in flow.subject.parameters.items() if trains[name]}
    waiting, seen = [tensor], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in weights:
            return True
        maker = recorder.made.get(id(each)) if id(each) not in seen else None
        seen.add(id(each))
        waiting += maker.inputs if maker is not None else []
    return False
