"""Lightning Bolts' check that a batch's examples do not mix.

`BatchGradientVerification` is no part of Lightning 2; the package that held it (lightning-bolts)
ended with Lightning 1. The check is small: take the output of one example, go backward, and look
for gradients at the inputs of the others. Here it uses the losses if the loss gives one for each
example, else the module's output.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from bench.gradient_tools.training import Training, losses_of
from bench.gradient_tools.verdicts import NotApplicable, Wrong
from gradient_check.exam.case import Case
from gradient_check.instruments.probe_loss import call


def examples_are_mixed(case: Case) -> None:
    """Look for a gradient of the first example's loss at the inputs of the others."""
    training = Training(case)
    probe = tree_map_only(Tensor, _watched, case.probe)
    inputs = [leaf for leaf in tree_leaves(probe) if isinstance(leaf, Tensor) and _is_input(leaf)]
    if not inputs:
        raise NotApplicable("no input of numbers with more than one row")
    count = len(inputs[0])
    rows = _rows(losses_of(case, training.module, probe), count)
    if rows is None:
        rows = _rows(_output(training, probe), count)
    if rows is None:
        raise NotApplicable("neither losses nor outputs have a row for each example")
    rows[0].sum().backward()  # type: ignore[no-untyped-call]
    for leaf in inputs:
        if leaf.grad is not None and len(leaf) == count and bool(leaf.grad[1:].any()):
            raise Wrong("the loss of the first example depends on other examples")


def _output(training: Training, probe: Any) -> Any:
    try:
        return call(training.module, probe)
    except Exception as error:
        raise NotApplicable("the module is not called with the probe alone") from error


def _rows(values: Any, count: int) -> Tensor | None:
    tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]
    return next((t for t in tensors if t.dim() and len(t) == count and t.requires_grad), None)


def _watched(tensor: Tensor) -> Tensor:
    copy = tensor.detach().clone()
    return copy.requires_grad_() if _is_number(copy) else copy


def _is_number(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.layout is torch.strided


def _is_input(tensor: Tensor) -> bool:
    return tensor.requires_grad and tensor.dim() > 0 and len(tensor) > 1
