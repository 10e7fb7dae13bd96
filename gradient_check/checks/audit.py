"""Finds faults in a module before it runs: step 2 of the self-test."""

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gradient_check.checks.peft_advice import advice_for_frozen
from gradient_check.diagnosis.definitions import tied
from gradient_check.findings.examination import Examination
from gradient_check.findings.report import Finding, count, some
from gradient_check.instruments.held_tensors import unregistered
from gradient_check.phases.census import is_healthy

_SIXTEEN_BIT = (torch.bfloat16, torch.float16)


def judge_module(exam: Examination, module: nn.Module, names: list[str]) -> None:
    """Report each fault that makes replicas or gradients impossible, or learning coarse.

    Args:
        exam: the examination that gets the findings.
        module: the caller's module.
        names: the parameters selected for training.
    """
    for finding in _audit(module, names):
        exam.keep(finding)


def _audit(module: nn.Module, names: list[str]) -> Iterator[Finding]:
    parameters = dict(module.named_parameters())
    yield from _audit_kinds(module)
    yield from _audit_health(module)
    yield from _audit_values(parameters)
    yield from _audit_ties(module, parameters, names)
    if not names:
        yield Finding(
            "nothing-trainable",
            "FAIL",
            f"none of the {len(parameters)} parameters is selected for training: {_advice(module)}",
        )
    coarse = [n for n in names if parameters[n].dtype in _SIXTEEN_BIT]
    if coarse:
        yield Finding(
            "coarse-dtype",
            "WARN",
            f"{count(coarse, 'trained tensor')} in 16 bits, where small updates round to nothing. "
            "Replicas train them in float32; keep doing so.",
            tuple(coarse),
        )


def _advice(module: nn.Module) -> str:
    hidden = list(unregistered(module).values())
    if hidden:
        return (
            f"{some(hidden)} hide in a plain list or dict. Keep modules in nn.ModuleList or "
            "nn.ModuleDict, parameters in nn.ParameterList or nn.ParameterDict."
        )
    if not any(True for _ in module.parameters()):
        return (
            f"the module holds only {len(list(module.buffers()))} buffers. Make each tensor to be "
            "learnt an nn.Parameter."
        )
    advice = advice_for_frozen(module) or "Correct `trainable`."
    return f"the selection matches no floating point parameter. {advice}"


def _audit_kinds(module: nn.Module) -> Iterator[Finding]:
    for name, part in module.named_modules():
        where = f"{name or '(root)'} ({type(part).__name__})"
        if isinstance(part, torch.jit.ScriptModule) and any(True for _ in part.parameters()):
            yield Finding(
                "scripted",
                "FAIL",
                "a copy of a ScriptModule does not keep tensors shared, so its replica cannot be "
                "trained. Load the eager module.",
                module=where,
            )
            return
        if "torch.ao.nn.quantized" in type(part).__module__:
            yield Finding(
                "quantized",
                "FAIL",
                "a quantized layer has no gradient, neither for itself nor for the layers below. "
                "Load the model in floating point, or quantize the weights only.",
                module=where,
            )


def _audit_health(module: nn.Module) -> Iterator[Finding]:
    tensors: dict[str, Tensor] = dict(module.named_parameters())
    lazy = [n for n, p in tensors.items() if is_lazy(p)]
    tensors |= {n: b for n, b in module.named_buffers() if not is_lazy(b)}
    tensors = {n: t for n, t in tensors.items() if n not in lazy}
    meta = [n for n, t in tensors.items() if t.is_meta]
    ill = [n for n, t in tensors.items() if not t.is_meta and not is_healthy(t)]
    if lazy:
        yield _named(
            "lazy",
            lazy,
            "without a shape: a replica cannot hold them. Run one "
            "forward outside inference mode in setup",
        )
    if meta:
        yield _named(
            "meta",
            meta,
            "on the meta device, without values. Load the weights before the test",
        )
    if ill:
        yield _named(
            "inference-tensor",
            ill,
            "made in inference mode (or cast from a tensor made there), unusable for autograd. "
            "Build and load the module outside inference mode, or call "
            "gradient_check.phases.census.heal",
        )
    attributes = list(_unhealthy_attributes(module))
    if attributes and not ill:
        text = "were stored by a forward in inference mode: a training forward of this same module"
        yield Finding(
            "inference-tensor",
            "WARN",
            f"tensors in attributes {text} would fail. Store no tensors between calls, or serve "
            f"under no_grad: {some(attributes)}.",
        )


def _unhealthy_attributes(module: nn.Module) -> Iterator[str]:
    for prefix, part in module.named_modules():
        unhealthy = [name for name, value in vars(part).items() if _is_unhealthy(value)]
        yield from (f"{prefix}.{name}".lstrip(".") for name in unhealthy)


def _is_unhealthy(value: object) -> bool:
    return isinstance(value, Tensor) and not value.is_meta and not is_healthy(value)


def _total(tensor: Tensor) -> Tensor:
    """Return the sum: NaN or infinity if a value is, or if the sum overflows."""
    return tensor.sum(dtype=torch.float32) if tensor.dtype in _SIXTEEN_BIT else tensor.sum()


def _named(code: str, names: list[str], rest: str) -> Finding:
    return Finding(code, "FAIL", f"{count(names, 'tensor')} {rest}: {some(names)}.", tuple(names))


def _audit_values(parameters: dict[str, nn.Parameter]) -> Iterator[Finding]:
    sound = {n: p for n, p in parameters.items() if not is_lazy(p) and not p.is_meta}
    floating = {n: p.detach() for n, p in sound.items() if p.is_floating_point() or p.is_complex()}
    bad = [n for n, p in floating.items() if p.numel() and not torch.isfinite(_total(p))]
    bad = [n for n in bad if not bool(torch.isfinite(floating[n]).all())]
    if bad:
        yield _named("nonfinite-weights", bad, "with NaN or infinite values. Load sound weights")


def _audit_ties(
    module: nn.Module, parameters: dict[str, nn.Parameter], names: list[str]
) -> Iterator[Finding]:
    """Find trained parameters that share another parameter's memory."""
    sound = {n: p for n, p in parameters.items() if not is_lazy(p) and not p.is_meta}
    dense = {n: p for n, p in sound.items() if p.layout is torch.strided and p.numel()}
    placed = sorted(
        (p.data_ptr(), p.data_ptr() + _span(p), str(p.device), n) for n, p in dense.items()
    )
    for (_, end, device, one), (begin, _, its_device, other) in pairwise(placed):
        if begin < end and device == its_device and not {one, other}.isdisjoint(names):
            yield Finding(
                "tied-data",
                "FAIL",
                f"{one} and {other} lie in the same memory, but are two parameters: each gets a "
                "part of the gradient, and an optimizer steps that memory twice. Assign the "
                "parameter itself, not its `.data`.",
                (one, other),
                line=tied(module, one, other),
            )


def _span(tensor: Tensor) -> int:
    """Return the bytes from a tensor's first entry to the end of its last."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return (1 + sum((size - 1) * step for size, step in pairs)) * tensor.element_size()
