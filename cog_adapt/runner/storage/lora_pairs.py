"""The pairs of matrices in a LoRA file, with their scales; layers that a file holds as one."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cog_adapt.runner.errors import InputError
from cog_adapt.runner.storage.peft_config import read_config, read_scales

PARTS = ("transformer.", "unet.", "text_encoder.", "text_encoder_2.")  # of a pipeline
ALPHA = ".alpha"
CONFIG = "lora_adapter_metadata"  # diffusers' own, JSON
_MOST_ALPHA = 1e9
_SHOWN = 80


class Pair(NamedTuple):
    """A layer's matrices: A is [rank, in, ...], B is [out, rank, ...], which has the scale."""

    a: Tensor
    b: Tensor


def matched(
    tensors: Mapping[str, Tensor], ends: tuple[str, str], scales: Mapping[str, float]
) -> tuple[dict[str, Pair], dict[str, Tensor]]:
    """Return the pairs by layer, each B with its scale, and the tensors that are in no pair."""
    a_end, b_end = ends
    layers = [name.removesuffix(a_end) for name in tensors if name.endswith(a_end)]
    pairs = {}
    for layer in layers:
        a, b = tensors[layer + a_end], tensors.get(layer + b_end)
        if b is None or a.dim() < 2 or b.dim() < 2 or len(a) != b.shape[1]:
            raise InputError(
                f"the layer {layer[:_SHOWN]!r} has no pair of matrices [rank, in] and [out, rank]. "
                "Send the whole file."
            )
        pairs[layer] = Pair(a.float(), b.float() * scales.get(layer, 1.0))
    taken = {layer + end for layer in layers for end in (*ends, ALPHA)}
    others = {name: tensor for name, tensor in tensors.items() if name not in taken}
    odd = [name for name in others if name.endswith((*ends, ALPHA)) or "lora" in name]
    if odd:
        raise InputError(
            f"the file has the tensor {odd[0][:_SHOWN]!r}, which is no part of plain LoRA. Train "
            "without what it is for."
        )
    return pairs, others


def scales_in(
    metadata: Mapping[str, str], tensors: Mapping[str, Tensor], ends: tuple[str, str]
) -> dict[str, float]:
    """Return the scales that the file names: its alphas, each by its rank, or diffusers' config."""
    a_end = ends[0]
    ranks = {n.removesuffix(a_end): len(t) for n, t in tensors.items() if n.endswith(a_end)}
    scales = _scales_of_config(metadata.get(CONFIG), ranks)
    for layer, rank in ranks.items():
        alpha = tensors.get(layer + ALPHA)
        if alpha is not None:
            scales[layer] = _alpha(alpha, layer) / max(rank, 1)
    return scales


def _alpha(alpha: Tensor, layer: str) -> float:
    value = alpha.item() if alpha.numel() == 1 else math.nan
    if not abs(value) <= _MOST_ALPHA:
        raise InputError(
            f"the alpha of {layer[:_SHOWN]!r} is {value}; it is a number up to {_MOST_ALPHA:,.0f}. "
            "Train it again."
        )
    return float(value)


def _scales_of_config(text: str | None, ranks: Mapping[str, int]) -> dict[str, float]:
    """Return the scales of diffusers' config, which has the keys of PEFT's for each part."""
    try:
        config = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise InputError(f"the file's {CONFIG} is no JSON: {error}.") from error
    if not isinstance(config, dict):
        raise InputError(f"the file's {CONFIG} is no JSON object.")
    found: dict[str, float] = {}
    for part in PARTS:
        own = {name.removeprefix(part): v for name, v in config.items() if name.startswith(part)}
        if own:
            content = json.dumps({"peft_type": "LORA"} | own).encode()
            inside = {p.removeprefix(part): rank for p, rank in ranks.items() if p.startswith(part)}
            scales = read_scales(read_config(content), inside)
            found |= {part + path: scale for path, scale in scales.items()}
    return found


def joined(parts: Sequence[Pair | None], outputs: Sequence[int]) -> Pair:
    """Return the pair of layers that are one, each with numbers of its own: B is block-diagonal."""
    (only, *more) = parts
    if only is not None and not more:
        return only
    known = [pair for pair in parts if pair is not None]
    rank = max(len(pair.a) for pair in known)
    a = known[0].a.new_zeros(len(parts) * rank, known[0].a.shape[1])
    b = known[0].b.new_zeros(sum(outputs), len(parts) * rank)
    row = 0
    for place, (pair, size) in enumerate(zip(parts, outputs, strict=True)):
        if pair is not None:
            first = place * rank
            a[first : first + len(pair.a)] = pair.a
            b[row : row + size, first : first + len(pair.a)] = pair.b
        row += size
    return Pair(a, b)


def parted(pair: Pair, outputs: Sequence[int], name: str) -> list[Pair]:
    """Return the pairs of layers that are one in the file; those of B's blocks have less rank."""
    if pair.b.dim() != 2 or len(pair.b) != sum(outputs):
        raise InputError(
            f"{name} has {len(pair.b)} outputs, but the base {sum(outputs)}. Use a file of this "
            "base."
        )
    rows = torch.split(pair.b, [*outputs])
    rank, rest = divmod(len(pair.a), len(outputs))
    if rest == 0 and _is_of_blocks(rows, rank):
        blocks = [each[:, place * rank : (place + 1) * rank] for place, each in enumerate(rows)]
        return [Pair(a, b) for a, b in zip(torch.split(pair.a, rank), blocks, strict=True)]
    return [Pair(pair.a, each) for each in rows]


def _is_of_blocks(rows: Sequence[Tensor], rank: int) -> bool:
    ends = [(place * rank, (place + 1) * rank) for place in range(len(rows))]
    return rank > 0 and not any(
        each[:, :first].any() or each[:, last:].any()
        for each, (first, last) in zip(rows, ends, strict=True)
    )
