"""`torch.autograd.gradcheck` and its relatives on a whole module, in float64.

The function under test takes the trained parameters and returns the sum of the losses. Values
are moved by 2 % of their size, so that factors that begin at 0 have a slope. Torch's defaults
apply; above 100 values its fast mode compares one random projection of the Jacobian.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_map_only

from bench.gradient_tools.training import Training, losses_of
from bench.gradient_tools.verdicts import NotApplicable, Wrong
from gradient_check.exam.case import Case

_MOST_VALUES = 100  # of a Jacobian that is compared entry by entry
_MOVED = 0.02
_WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128}
Function = Callable[..., Tensor]


class _Loss(nn.Module):
    """The loss of a module, as a module: `functional_call` gives it other parameters."""

    def __init__(self, case: Case, module: nn.Module) -> None:
        super().__init__()
        self.case = case
        self.module = module

    def forward(self, probe: Any) -> Tensor:
        return losses_of(self.case, self.module, probe).sum()


def double_gradcheck(case: Case) -> None:
    """Run `gradcheck`: the backward against central differences."""
    function, values = _function_of(case)
    torch.autograd.gradcheck(function, values, fast_mode=_is_large(values))


def double_gradgradcheck(case: Case) -> None:
    """Run `gradgradcheck`, in its fast mode: the backward of the backward."""
    function, values = _function_of(case)
    torch.autograd.gradgradcheck(function, values, fast_mode=True)


def forward_mode_check(case: Case) -> None:
    """Run `gradcheck` on forward-mode derivatives, in its fast mode."""
    function, values = _function_of(case)
    torch.autograd.gradcheck(
        function, values, fast_mode=True, check_forward_ad=True, check_backward_ad=False
    )


def _is_large(values: tuple[Tensor, ...]) -> bool:
    return sum(value.numel() for value in values) > _MOST_VALUES


def _function_of(case: Case) -> tuple[Function, tuple[Tensor, ...]]:
    """Return the loss as a function of the trained parameters, and their values.

    Raises:
        NotApplicable: the forward raises in float64, but not in the module's own types.
    """
    plain = Training(case)
    if "precision" in case.options:
        raise NotApplicable("the case is about 16 bits")
    names = tuple(plain.parameters)
    if not names:
        raise Wrong("no parameter is trained")
    try:
        wide: nn.Module = copy.deepcopy(plain.module)
        wide._apply(_widened)  # type: ignore[no-untyped-call]
    except Exception as error:
        plain.losses()  # which raises by itself, or this is no matter of the model
        raise NotApplicable(f"no copy: {error!r}") from error
    net = _Loss(case, wide)
    probe = tree_map_only(Tensor, _widened, case.probe)
    generator = torch.Generator().manual_seed(0)
    own = dict(wide.named_parameters())
    values = tuple(_moved(own[name].detach(), generator).requires_grad_() for name in names)
    buffers = {f"module.{name}": buffer for name, buffer in wide.named_buffers()}

    def function(*given: Tensor) -> Tensor:
        tensors = {f"module.{name}": value for name, value in zip(names, given, strict=True)}
        fresh = {name: buffer.clone() for name, buffer in buffers.items()}
        batch = tree_map_only(Tensor, torch.clone, probe)
        loss: Tensor = functional_call(net, {**tensors, **fresh}, (batch,))
        return loss

    try:
        function(*values)
    except Exception as error:
        plain.losses()
        raise NotApplicable(f"in float64: {error!r}") from error
    return function, values


def _moved(value: Tensor, generator: torch.Generator) -> Tensor:
    noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
    scale = value.abs().mean().clamp(min=0.1) if value.numel() else 1.0
    return value + _MOVED * scale * noise


def _widened(tensor: Tensor) -> Tensor:
    return tensor.to(_WIDER.get(tensor.dtype, tensor.dtype))
