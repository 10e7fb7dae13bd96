"""A plain training loop on a case, for the checks by hand and torch's own tools."""

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from gradient_check.arguments import chosen_precision
from gradient_check.exam.case import Case
from gradient_check.instruments.loss_forms import takes_module, takes_targets
from gradient_check.instruments.probe_loss import call
from gradient_check.instruments.selection import select
from gradient_check.phases.modes import casting

_RATE = 1e-3


class Training:
    """A module with its probe, its loss and an optimizer, on the module itself.

    Batch norms are in eval mode, since probes are small; all other parts are in training. What the
    case's options select, declare unused or give as an optimizer applies here too.

    Attributes:
        parameters: the trained ones, by their names; without those that may have no gradient.
    """

    def __init__(self, case: Case, rate: float | None = None) -> None:
        self.case = case
        self.module = case.module.train()
        for part in self.module.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.eval()
        trainable, unused = case.options.get("trainable"), case.options.get("unused", ())
        chosen = select(self.module, trainable)
        named = dict(self.module.named_parameters())
        if trainable is not None:
            for name, parameter in named.items():
                parameter.requires_grad_(name in chosen)
        trained = {n: p for n, p in named.items() if p.requires_grad and not _matches(n, unused)}
        self.parameters = trained
        given = case.options.get("learning_rate", _RATE if rate is None else rate)
        make = case.options.get("make_optimizer", lambda own: torch.optim.Adam(own, lr=given))
        self.optimizer: torch.optim.Optimizer = make([p for p in named.values() if p.requires_grad])

    def losses(self) -> Tensor:
        """Return the losses of a copy of the probe, from one seed."""
        probe = tree_map_only(Tensor, lambda t: t.detach().clone(), self.case.probe)
        return losses_of(self.case, self.module, probe)

    def backward(self) -> float:
        """Run forward and backward; return the mean loss."""
        self.optimizer.zero_grad()
        loss = self.losses().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    def step(self) -> float:
        """Take a step; return the mean loss before it."""
        loss = self.backward()
        self.optimizer.step()
        return loss


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(name == pattern or re.fullmatch(pattern, name) for pattern in patterns)


def losses_of(case: Case, module: nn.Module, probe: Any) -> Tensor:
    """Return the losses of a module and a probe, in the case's precision, from one seed."""
    torch.default_generator.manual_seed(0)  # torch.manual_seed takes 8 ms where there is no GPU
    precision = chosen_precision(case.options.get("precision"), module)
    with casting(precision), warnings.catch_warnings():
        warnings.simplefilter("default")
        losses: Tensor = _losses(case, module, probe)
    return losses


def _losses(case: Case, module: nn.Module, probe: Any) -> Any:
    if takes_module(case.loss):
        return case.loss(module, probe)
    if takes_targets(case.loss):
        return case.loss(call(module, probe[0]), probe[1])
    plain = dict(probe) if isinstance(probe, Mapping) else probe
    return case.loss(call(module, plain))
