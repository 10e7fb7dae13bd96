"""Reports a module that cannot be copied, and what to do."""

import copy

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from gradient_check.diagnosis.definitions import assigned
from gradient_check.findings.examination import Examination, describe
from gradient_check.instruments.graph import reached_leaves

_NORM_ADVICE = ". Use torch.nn.utils.parametrizations.weight_norm, which can be copied."
_KEPT_ADVICE = (
    ". It has an earlier forward's graph: store `.detach()`ed values, or check before that."
)


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
    if "weight_norm" in str(error):  # torch's advice for any tensor with a graph
        is_weight = place is not None and place.endswith("attribute weight")
        advice = _NORM_ADVICE if is_weight else _KEPT_ADVICE
    text = f"no private replica can be made: {describe(error)}{advice}"
    exam.add("FAIL", "replica", text, module=place, line=line)


def _report_derived(
    exam: Examination, module: nn.Module, value: object, place: str, line: str | None
) -> None:
    """Report an attribute that was computed from an unregistered parameter."""
    tensors = [each for each in tree_leaves(value) if isinstance(each, Tensor) and each.grad_fn]
    known = {id(p) for p in module.parameters()}
    leaves = {i: leaf for tensor in tensors for i, leaf in reached_leaves(tensor).items()}
    if any(isinstance(leaf, nn.Parameter) and i not in known for i, leaf in leaves.items()):
        exam.add(
            "FAIL",
            "unregistered",
            "an attribute was computed from an unregistered nn.Parameter (`.to(...)`, a product), "
            "so no optimizer gets the parameter. Compute the values first, and assign an "
            "nn.Parameter made of them.",
            module=place,
            line=line,
        )
