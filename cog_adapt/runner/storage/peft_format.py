"""PEFT's format: an adapter as a .zip of `adapter_config.json` and `adapter_model.safetensors`.

`peft.PeftModel.from_pretrained` loads the written files, and adapters that PEFT trained can be
read; the model's outputs are the same. Pickles are never read.
"""

import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor, nn

from cog_adapt.runner.data.zip_files import ZipBounds, ZipContent
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.modules.adapters import (
    FORMAT,
    MOST_ADAPTER_BYTES,
    Adapter,
    load_tensors,
    metadata_of,
)
from cog_adapt.runner.storage.peft_config import read_config, read_scales, written_config
from gradient_check.phases.lora import LORA_A, LORA_B, SCALE

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_LEAVES = {LORA_A: "lora_A.weight", LORA_B: "lora_B.weight"}
_METHODS = ("lora", "head", "start")
_MOST_CONFIG_BYTES = 2**20
_BOUNDS = ZipBounds(
    members=100,
    member_bytes=MOST_ADAPTER_BYTES,
    total_bytes=MOST_ADAPTER_BYTES + _MOST_CONFIG_BYTES,
    ratio=20,  # trained numbers hardly shrink; pairs that were never trained are half zeros
)
_MOST_NAME = 500
_SHOWN = 80


@dataclass(frozen=True)
class PeftFormat:
    """Writes and reads PEFT's format for one base.

    Attributes:
        template: the base's structure.
        base: its digest, which PEFT's own files lack.
        head: full-match regex of the tensors that have a row for each label (`Task.head`).
        labels: of a task with a fixed set.
    """

    template: nn.Module
    base: str
    head: str
    labels: tuple[str, ...] = field(default=())

    def write(self, adapter: Adapter) -> bytes:
        """Return an adapter as a .zip.

        Raises:
            InputError: PEFT has no format for the adapter's method.
        """
        if adapter.method not in _METHODS:
            raise InputError(
                f"adapter {adapter.id} was made with method {adapter.method!r}, for which PEFT has "
                f"no format; it has one for {', '.join(_METHODS)}. Ask for safetensors."
            )
        pairs = {n: t for n, t in adapter.tensors.items() if n.rpartition(".")[2] in _LEAVES}
        ranks = {n.rpartition(".")[0]: t.shape[0] for n, t in pairs.items() if n.endswith(LORA_A)}
        saved = self._saved({n: t for n, t in adapter.tensors.items() if n not in pairs})
        scales = {path: adapter.scales.get(path, SCALE) for path in ranks}
        modules = sorted({_path(name) for name in saved})
        tensors = {_PREFIX + _theirs(name): tensor for name, tensor in pairs.items()}
        tensors |= {_PREFIX + name: tensor for name, tensor in saved.items()}
        content = save(
            {name: tensors[name].contiguous() for name in sorted(tensors)},
            {"format": "pt", FORMAT: adapter.header},
        )
        return _zipped(written_config(ranks, scales, modules), content)

    def read(self, path: Path) -> Adapter:
        """Read an adapter from a .zip; the caller checks whether it fits the base.

        Raises:
            InputError: it is no .zip of the two files, or not plain LoRA.
            WeightsError: its tensors cannot be read.
        """
        config_content, content = _unzipped(path)
        config = read_config(config_content)
        theirs = load_tensors(content, TENSORS)
        tensors = {_ours(name): tensor for name, tensor in theirs.items()}
        tensors = {n: t.float() if _leaf(n) in _LEAVES else t for n, t in tensors.items()}
        ranks = {_path(n): len(t) for n, t in tensors.items() if _leaf(n) == LORA_A and t.numel()}
        scales = read_scales(config, ranks)
        about = header_of_file(metadata_of(content))
        return Adapter(
            tensors=tensors,
            labels=tuple(about.get("labels") or self.labels_of(tensors)),
            method=about.get("method") or ("lora" if ranks else "head"),
            base=about.get("base") or self.base,
            scales={path: scale for path, scale in scales.items() if scale != SCALE},
        )

    def labels_of(self, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
        """Return names for the rows of a head from a file that stores no labels."""
        rows = [t.shape[0] for n, t in tensors.items() if re.fullmatch(self.head, n) and t.dim()]
        if not rows or len(self.labels) == rows[0]:
            return self.labels
        return tuple(f"label_{number}" for number in range(rows[0]))

    def _saved(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return whole modules, as PEFT stores modules; the base gives what the adapter lacks."""
        whole: dict[str, Tensor] = {}
        modules = dict(self.template.named_modules())
        for path in sorted({_path(name) for name in tensors}):
            others = [name for name in modules if name != path and name.endswith(path)]
            if not path or others:
                raise InputError(
                    f"PEFT cannot store the module {path!r} by itself: {', '.join(others[:3])} "
                    "would be taken for it. Ask for safetensors."
                )
            parameters = modules[path].named_parameters(path)
            whole |= {name: parameter.detach().cpu() for name, parameter in parameters}
        foreign = [name for name in tensors if name not in whole]
        if foreign:
            raise InputError(
                f"PEFT has no format for {foreign[0]}, which is no parameter. Ask for safetensors."
            )
        return whole | dict(tensors)


def _leaf(name: str) -> str:
    return name.rpartition(".")[2]


def _path(name: str) -> str:
    return name.rpartition(".")[0]


def _theirs(name: str) -> str:
    return f"{_path(name)}.{_LEAVES[_leaf(name)]}"


def _ours(name: str) -> str:
    """Return a parameter's name in the base (InputError if it cannot be one)."""
    short = name.removeprefix(_PREFIX) if len(name) <= _MOST_NAME else name
    for leaf, theirs in _LEAVES.items():
        if short != name and short.endswith(f".{theirs}"):
            return f"{short.removesuffix(theirs)}{leaf}"
    if short == name or "lora_" in short:
        raise InputError(
            f"{TENSORS} has the tensor {name[:_SHOWN]!r}, which is no part of plain LoRA. Train "
            "without what it is for."
        )
    return short


def header_of_file(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return the header of one of this project's files; empty if PEFT wrote the file."""
    try:
        header = json.loads(metadata.get(FORMAT, "{}"))
    except (ValueError, RecursionError):
        return {}
    fits = isinstance(header, dict) and all(isinstance(header.get(n, ""), str) for n in _TEXTS)
    labels = header.get("labels", []) if fits else None
    is_ours = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    return header if is_ours else {}


_TEXTS = ("method", "base")


def _zipped(config: Mapping[str, Any], content: bytes) -> bytes:
    """Pack the two files, uncompressed: numbers do not compress."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo(CONFIG), json.dumps(config, indent=2))
        archive.writestr(zipfile.ZipInfo(TENSORS), content)
    return buffer.getvalue()


def _unzipped(path: Path) -> tuple[bytes, bytes]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"the file cannot be read: {error}. Send it again.") from error
    with file:
        archive = ZipContent(file, _BOUNDS, lambda member: _is_ours(member.filename))
        config, tensors = _entries(archive)
        if config.file_size > _MOST_CONFIG_BYTES:
            raise InputError(
                f"{CONFIG} has more than {_MOST_CONFIG_BYTES:,} bytes. Send PEFT's own."
            )
        return _read(archive, config, CONFIG), _read(archive, tensors, TENSORS)


def _entries(archive: ZipContent) -> list[zipfile.ZipInfo]:
    """Return the paths of the two files, each present once, in whatever folder."""
    found = sorted(archive.members, key=lambda member: _file_name(member.filename))
    if [_file_name(member.filename) for member in found] != [CONFIG, TENSORS]:
        raise InputError(
            f"the ZIP file has {len(found)} of the two files {CONFIG} and {TENSORS} that "
            "`save_pretrained` writes. Pack the two files, each once."
        )
    return found


def _read(archive: ZipContent, member: zipfile.ZipInfo, name: str) -> bytes:
    try:
        return archive.read(member)
    except InputError as error:
        raise InputError(f"{name} in the ZIP file: {error}") from error


def _is_ours(name: str) -> bool:
    return _file_name(name) in (CONFIG, TENSORS)


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]
