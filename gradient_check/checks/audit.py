"""Finds faults in a module before it runs: step 2 of the self-test."""

import copy
from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_leaves

from gradient_check.checks.peft_advice import advice_for_frozen
from gradient_check.diagnosis.definitions import assigned, tied
from gradient_check.findings.examination import Examination, describe
from gradient_check.findings.report import Finding, count, some
from gradient_check.instruments.graph import reached_leaves
from gradient_check.instruments.held_tensors import unregistered
from gradient_check.phases.census import is_healthy

_NORM_ADVICE = ". Use torch.nn.utils.parametrizations.weight_norm, which can be copied."
_KEPT_ADVICE = ". It has an earlier forward's graph: keep `.detach()`ed values, or check before it."
_SIXTEEN_BIT = (torch.bfloat16, torch.float16)


def audit_module(module: nn.Module, names: list[str]) -> Iterator[Finding]:
    """Find everything that would make replicas or gradients impossible, or learning coarse."""
    parameters = dict(module.named_parameters())
    yield from _audit_kinds(module)
    yield from _audit_health(module)
    yield from _audit_values(parameters)
    yield from _audit_ties(module, parameters, names)
    if not names:
        yield Finding(
            "nothing-trainable",
            "FAIL",
            f"none of the {len(parameters)} parameters is to be trained: {_advice(module)}",
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
            f"{len(list(module.buffers()))} buffers are all that the module holds. Make what is to "
            "be learnt an nn.Parameter."
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
                "a ScriptModule ignores that tensors are shared when it is copied, so a replica "
                "of it cannot be trained. Load the eager module.",
                module=where,
            )
            return
        if "torch.ao.nn.quantized" in type(part).__module__:
            yield Finding(
                "quantized",
                "FAIL",
                "a quantized layer has no gradient, neither for itself nor for what lies below. "
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
            "made in inference mode (or cast from one that was), where autograd has no use for it. "
            "Build and load outside it, or call gradient_check.phases.census.heal",
        )
    attributes = list(_unhealthy_attributes(module))
    if attributes and not ill:
        text = "are kept from a forward in inference mode: a training forward of this very module"
        yield Finding(
            "inference-tensor",
            "WARN",
            f"tensors in attributes {text} would fail. Keep no tensors between calls, or serve "
            f"under no_grad: {some(attributes)}.",
        )


def _unhealthy_attributes(module: nn.Module) -> Iterator[str]:
    for prefix, part in module.named_modules():
        unhealthy = [name for name, value in vars(part).items() if _is_unhealthy(value)]
        yield from (f"{prefix}.{name}".lstrip(".") for name in unhealthy)


def _is_unhealthy(value: object) -> bool:
    return isinstance(value, Tensor) and not value.is_meta and not is_healthy(value)


def _total(tensor: Tensor) -> Tensor:
    """Return the sum, which is not finite where a value is not; it may overflow besides."""
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
    """Find trained parameters that lie in the memory of another one."""
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


def _find_uncopied(module: nn.Module) -> tuple[str, str] | None:
    """Return the innermost module whose own attributes cannot be copied, and the attribute."""
    for name, part in reversed(list(module.named_modules())):
        own = {k: v for k, v in vars(part).items() if k not in ("_modules", "_parameters")}
        attribute = next((k for k, value in own.items() if not _can_be_copied(value)), None)
        if attribute is not None:
            return name, attribute
    return None


def _can_be_copied(value: object) -> bool:
    try:
        copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - copying runs the module's code
        return False
    return True


def report_uncopied(exam: Examination, module: nn.Module, error: Exception) -> None:
    """Report that a module cannot be copied, and what to do."""
    found, advice, place, line = _find_uncopied(module), "", None, None
    if found is not None:
        name, attribute = found
        part = module.get_submodule(name)
        place = f"{name or '(root)'} ({type(part).__name__}), attribute {attribute}"
        line = assigned(module, f"{name}.{attribute}".lstrip("."))
        _report_derived(exam, module, vars(part)[attribute], place, line)
    if "weight_norm" in str(error):  # as torch says of every tensor with a graph
        is_weight = place is not None and place.endswith("attribute weight")
        advice = _NORM_ADVICE if is_weight else _KEPT_ADVICE
    text = f"no private replica can be made: {describe(error)}{advice}"
    exam.add("FAIL", "replica", text, module=place, line=line)


def _report_derived(
    exam: Examination, module: nn.Module, value: object, place: str, line: str | None
) -> None:
    """Report what was computed from parameters of its own when the module was made."""
    tensors = [each for each in tree_leaves(value) if isinstance(each, Tensor) and each.grad_fn]
    known = {id(p) for p in module.parameters()}
    leaves = {i: leaf for tensor in tensors for i, leaf in reached_leaves(tensor).items()}
    if any(isinstance(leaf, nn.Parameter) and i not in known for i, leaf in leaves.items()):
        exam.add(
            "FAIL",
            "unregistered",
            "an attribute was computed from an nn.Parameter that nothing registers (`.to(...)`, a "
            "product), so no optimizer gets it. Assign the parameter itself, made of the values.",
            module=place,
            line=line,
        )
