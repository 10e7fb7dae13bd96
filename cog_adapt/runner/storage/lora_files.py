"""LoRA files of image models: diffusers' `pytorch_lora_weights.safetensors`, and kohya's.

A layer's scale is in its B, since not every program reads the scale that a file names. Other
tensors, such as a learned style, lie in the file under their own names; programs that read LoRA
alone leave them out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from safetensors.torch import save
from torch import Tensor

from cog_adapt.runner.errors import InputError
from cog_adapt.runner.modules.adapters import FORMAT, Adapter, load_tensors, metadata_of
from cog_adapt.runner.storage.kohya_names import kohya_names
from cog_adapt.runner.storage.lora_pairs import (
    ALPHA,
    PARTS,
    Pair,
    joined,
    matched,
    parted,
    scales_in,
)
from cog_adapt.runner.storage.peft_format import PeftFormat, header_of_file
from gradient_check.phases.lora import LORA_A, LORA_B

_ENDS = (
    (".lora_A.weight", ".lora_B.weight"),
    (".lora.down.weight", ".lora.up.weight"),
    (".lora_down.weight", ".lora_up.weight"),
)
_KOHYA = _ENDS[-1]
_LENGTH_BYTES = 8  # of a header, before it
_SHOWN = 80


@dataclass(frozen=True)
class LoRAFiles:
    """Writes and reads the two formats for one base.

    Attributes:
        about: what PEFT's format has to know of the base, whose parts are named as a pipeline names
            them.
    """

    about: PeftFormat

    def write(self, adapter: Adapter, format: str) -> bytes:
        """Return an adapter as `diffusers` or as `kohya`.

        Raises:
            InputError: it has no LoRA pairs, or one of a layer that the format has no name for.
        """
        pairs = _pairs_of(adapter)
        outside = [path for path in pairs if not path.startswith(PARTS)]
        if not pairs or outside:
            raise InputError(
                f"{format} files hold LoRA pairs of a pipeline's parts, which are "
                f"{', '.join(part[:-1] for part in PARTS)}; adapter {adapter.id} has "
                f"{f'one of {outside[0]}' if outside else 'none'}. Ask for safetensors or peft."
            )
        others = {n: t for n, t in adapter.tensors.items() if not n.endswith((LORA_A, LORA_B))}
        named = self._as_kohya(pairs) if format == "kohya" else _as_diffusers(pairs)
        tensors = {name: each.contiguous() for name, each in sorted((others | named).items())}
        about = replace(adapter, tensors={}, scales={}).header
        return save(tensors, {FORMAT: about})  # type: ignore[no-any-return]

    def read(self, content: bytes, name: str) -> Adapter:
        """Read an adapter; the caller checks whether it fits the base.

        Raises:
            InputError: it has other than LoRA pairs, or of layers that the base lacks.
            WeightsError: its tensors cannot be read.
        """
        tensors, metadata = load_tensors(content, name), metadata_of(content)
        ends = next(e for e in _ENDS if any(name.endswith(e) for name in tensors))
        pairs, others = matched(tensors, ends, scales_in(metadata, tensors, ends))
        ours = self._from_kohya(pairs) if ends == _KOHYA else self._from_diffusers(pairs)
        about = header_of_file(metadata)
        found = {f"{path}.{LORA_A}": pair.a for path, pair in ours.items()}
        found |= {f"{path}.{LORA_B}": pair.b for path, pair in ours.items()} | others
        return Adapter(
            tensors=found,
            labels=tuple(about.get("labels") or self.about.labels_of(others)),
            method=about.get("method") or "lora",
            base=about.get("base") or self.about.base,
            scales=dict.fromkeys(ours, 1.0),
        )

    def _as_kohya(self, pairs: Mapping[str, Pair]) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        left = dict(pairs)
        for name, paths in kohya_names(self.about.template).items():
            if left.keys() & set(paths):
                parts = [left.pop(path, None) for path in paths]
                pair = joined(parts, [self._outputs(path) for path in paths])
                found |= {f"{name}{_KOHYA[0]}": pair.a, f"{name}{_KOHYA[1]}": pair.b}
                found[f"{name}{ALPHA}"] = torch.tensor(float(len(pair.a)))
        if left:
            raise InputError(
                f"kohya's format has no name for the layer {min(left)}. Ask for diffusers."
            )
        return found

    def _from_kohya(self, pairs: Mapping[str, Pair]) -> dict[str, Pair]:
        names = kohya_names(self.about.template)
        unknown = sorted(pairs.keys() - names.keys())
        if unknown:
            raise _unknown(unknown)
        found: dict[str, Pair] = {}
        for name, pair in pairs.items():
            paths = names[name]
            parts = [pair] if len(paths) == 1 else parted(pair, [*map(self._outputs, paths)], name)
            found |= zip(paths, parts, strict=True)
        return found

    def _from_diffusers(self, pairs: Mapping[str, Pair]) -> dict[str, Pair]:
        known = {path for path, _ in self.about.template.named_modules()}
        found = {
            path if path in known else f"transformer.{path}": pair for path, pair in pairs.items()
        }
        unknown = sorted(found.keys() - known)
        if unknown:
            raise _unknown([each.removeprefix("transformer.") for each in unknown])
        return found

    def _outputs(self, path: str) -> int:
        weight = self.about.template.get_parameter(f"{path}.weight")
        return len(weight)


def is_lora_file(content: bytes) -> bool:
    """Return whether a safetensors file's tensors have the names of one of the formats."""
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    header = content[_LENGTH_BYTES : _LENGTH_BYTES + length]
    is_named = any(f'{end}"'.encode() in header for ends in _ENDS for end in ends)
    return is_named and b'"base_model.' not in header  # which begins the names of PEFT's files


def _pairs_of(adapter: Adapter) -> dict[str, Pair]:
    of = adapter.tensors
    return {
        path: Pair(of[f"{path}.{LORA_A}"], of[f"{path}.{LORA_B}"] * scale)
        for path, scale in adapter.pair_scales.items()
    }


def _as_diffusers(pairs: Mapping[str, Pair]) -> dict[str, Tensor]:
    a_end, b_end = _ENDS[0]
    found = {f"{path}{a_end}": pair.a for path, pair in pairs.items()}
    return found | {f"{path}{b_end}": pair.b for path, pair in pairs.items()}


def _unknown(layers: Sequence[str]) -> InputError:
    shown = re.sub(r"[^\w.-]", "?", layers[0][:_SHOWN])
    return InputError(
        f"the file is of another base: this one has no layer {shown}, nor {len(layers) - 1} others "
        "of the file. Train it on this base."
    )
