"""Checks whether an adapter, of whatever origin, belongs to the model at hand."""

import re
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cog_adapt.runner.errors import WeightsError
from cog_adapt.runner.modules.adapters import Adapter
from gradient_check.phases.lora import LORA_A, LORA_B, pair_shapes
from gradient_check.phases.replicas import weights_buffers

_MOST_SCALE = 1e6
_SHOWN = 80
_SUMMED = (torch.float32, torch.float64)


def check_fits(adapter: Adapter, base: str, template: nn.Module, head: str) -> None:
    """Refuse an adapter of another base, or one with unusable tensors.

    Args:
        adapter: named or sent by a caller.
        base: `base_digest` of the model at hand.
        template: the model's structure.
        head: full-match regex of the tensors that have a row for each label (`Task.head`).

    Raises:
        WeightsError: the adapter does not fit.
    """
    if adapter.base != base:
        raise WeightsError(
            f"adapter {adapter.id} was made on base {adapter.base}, and this is base {base}. Adapt "
            "again on this model, or start the server with the other one."
        )
    model = _Model(
        tensors=dict(template.named_parameters(remove_duplicate=False)) | weights_buffers(template),
        buffers=frozenset(name for name, _ in template.named_buffers(remove_duplicate=False)),
        layers=dict(template.named_modules()),
        head=head,
    )
    for name, tensor in adapter.tensors.items():
        problem = _problem(name, tensor=tensor, adapter=adapter, model=model)
        if problem:
            raise WeightsError(
                f"adapter {adapter.id} cannot be used: tensor {name} {problem}. Use a file that "
                "was made with this version of the model, unchanged."
            )
    for path, scale in adapter.scales.items():
        problem = _scale_problem(path, scale, adapter)
        if problem:
            raise WeightsError(
                f"adapter {adapter.id} cannot be used: the scale of {path!r} {problem}; it is a "
                f"number up to {_MOST_SCALE:,.0f}. Use an unchanged file."
            )


@dataclass(frozen=True)
class _Model:
    """The properties of the model that an adapter must fit."""

    tensors: dict[str, Tensor]
    buffers: frozenset[str]
    layers: dict[str, nn.Module]
    head: str


def _problem(name: str, tensor: Tensor, adapter: Adapter, model: _Model) -> str | None:
    """Return the fault of one tensor, or None."""
    if tensor.is_floating_point() and not _is_finite(tensor):
        return "has values that are not finite"
    path, _, leaf = name.rpartition(".")
    if leaf in (LORA_A, LORA_B):
        return _lora_problem(name, tensor=tensor, adapter=adapter, model=model)
    own = model.tensors.get(name)
    in_head = re.fullmatch(model.head, name) is not None
    if own is None and name in model.buffers:
        return "is a buffer, which no adaptation trains"
    if own is not None and not own.is_floating_point():
        return f"is {own.dtype} in the model, which no adaptation trains"
    if own is None and not (in_head and path in model.layers):
        return "has no place in the model"
    if own is not None and tensor.dtype not in (own.dtype, _master_dtype(own)):
        return f"is {tensor.dtype}; the model's is {own.dtype}"
    shape = tuple(tensor.shape if own is None else own.shape)
    if in_head and adapter.labels:
        shape = (len(adapter.labels), *shape[1:])
    return _shape_problem(tensor, shape)


def _is_finite(tensor: Tensor) -> bool:
    """Return whether all values are finite.

    A sum is ten times as fast as a look at each value, which is needed only if the sum overflows.
    """
    values = tensor if tensor.dtype in _SUMMED else tensor.float()
    return bool(values.sum().isfinite()) or bool(values.isfinite().all())


def _master_dtype(own: Tensor) -> torch.dtype:
    """Return the dtype in training: float32 at least (`replicas.training_replica`)."""
    return torch.promote_types(own.dtype, torch.float32)


def _lora_problem(name: str, tensor: Tensor, adapter: Adapter, model: _Model) -> str | None:
    path, _, leaf = name.rpartition(".")
    layer = model.layers.get(path)
    if pair_shapes(layer, 0) is None:
        return f"adapts {path!r}, which is no linear layer and no convolution"
    other = adapter.tensors.get(f"{path}.{LORA_B if leaf == LORA_A else LORA_A}")
    if other is None or other.dim() < 2 or tensor.dim() != other.dim():
        return "lacks the other half of its pair, or one of them is no matrix"
    if 0 in (*tensor.shape, *other.shape):
        return "has no entries, or the other half of its pair has none"
    if tensor.dtype is not torch.float32:
        return f"is {tensor.dtype}, not float32"
    shapes = pair_shapes(layer, (tensor if leaf == LORA_A else other).shape[0])
    if shapes is None:
        return "has a rank that the convolution's groups do not divide"
    return _shape_problem(tensor, shapes[0] if leaf == LORA_A else shapes[1])


def _scale_problem(path: str, scale: object, adapter: Adapter) -> str | None:
    """Return the fault of one pair's scale, or None."""
    if f"{path}.{LORA_A}" not in adapter.tensors:
        return "belongs to no pair"
    if isinstance(scale, int | float) and abs(scale) <= _MOST_SCALE:
        return None
    return f"is {repr(scale)[:_SHOWN]}"


def _shape_problem(tensor: Tensor, wanted: tuple[int, ...]) -> str | None:
    if tuple(tensor.shape) == wanted:
        return None
    return f"has shape {tuple(tensor.shape)}, not {wanted}"
