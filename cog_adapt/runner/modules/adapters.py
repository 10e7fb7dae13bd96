"""An adapter: the named tensors that an adaptation trained, and the files that hold them.

A file is safetensors, never a pickle; its metadata names its labels and its base.
"""

import hashlib
import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from cog_adapt.runner.data.files import ZIP_MARK, write_whole
from cog_adapt.runner.errors import WeightsError
from gradient_check.phases.census import checksums
from gradient_check.phases.lora import LORA_A, SCALE

FORMAT = "cog-adapt/1"
_TIMEOUT_SECONDS = 30
_SHOWN = 80
MOST_ADAPTER_BYTES = 512 * 2**20  # bytes of a file that a caller sends
_MOST_HEADER_BYTES = 16 * 2**20
_MOST_TENSORS = 20_000  # a tensor of no bytes takes a thousand times the memory of its entry
_LENGTH_BYTES = 8
_PEFT = (
    "Its tensors have PEFT's names: put it into a .zip with its adapter_config.json, upload that "
    "to POST /adapters, and send the id as `adapter`"
)


@dataclass(frozen=True)
class Adapter:
    """The difference between the base and the adapted model.

    Attributes:
        tensors: CPU tensors by parameter name; the tensors replace or join the base's.
        labels: the label set, in the order of a head's rows; () for tasks without labels.
        method: the recipe's method, or `start` for a label set without training.
        base: the digest of the base's weights (`base_digest`).
        scales: the scales of LoRA pairs that differ from `lora.SCALE`, by layer.
    """

    tensors: Mapping[str, Tensor]
    labels: tuple[str, ...]
    method: str
    base: str
    scales: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def id(self) -> str:
        """Sixteen hex digits derived from the content: equal tensors have equal ids."""
        return hashlib.sha256(self.to_bytes()).hexdigest()[:16]

    @property
    def rank(self) -> int | None:
        """The rank of the adapter's LoRA pairs; None if the adapter has no pair."""
        pairs = (t for name, t in self.tensors.items() if name.rpartition(".")[2] == LORA_A)
        return next((tensor.shape[0] for tensor in pairs), None)

    @property
    def pair_scales(self) -> dict[str, float]:
        """The scale of each trained LoRA pair, by its layer."""
        trained = (n for n, t in self.tensors.items() if n.endswith(f".{LORA_A}") and t.numel())
        paths = (name.rpartition(".")[0] for name in trained)
        return {path: self.scales.get(path, SCALE) for path in paths}

    @property
    def nbytes(self) -> int:
        """The number of bytes of the adapter's tensors."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def to_bytes(self) -> bytes:
        """Return the adapter as a safetensors file."""
        tensors = {name: self.tensors[name].contiguous() for name in sorted(self.tensors)}
        # one metadata entry: safetensors writes several in no fixed order, and the id is a digest
        return save(tensors, {FORMAT: self.header})  # type: ignore[no-any-return]

    @property
    def header(self) -> str:
        """The file's description beside the tensors, as JSON."""
        header = {"labels": self.labels, "method": self.method, "base": self.base}
        scales = {"scales": dict(self.scales)} if self.scales else {}
        return json.dumps(header | scales, sort_keys=True)


def load_adapter(path: Path) -> Adapter:
    """Read an adapter file.

    Raises:
        WeightsError: the file is missing, no safetensors file, or no adapter.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error}. Check the path.") from error
    return adapter_from_bytes(content, str(path))


def save_adapter(adapter: Adapter, path: Path) -> None:
    """Write an adapter as safetensors, whole or not at all (StoreError)."""
    write_whole(path, adapter.to_bytes())


def read_weights(reference: str) -> Adapter:
    """Read the adapter that a process starts with: COG_WEIGHTS, a path or a URL.

    The operator writes this setting, so the request is not guarded. No caller's value comes here.

    Raises:
        WeightsError: the file cannot be read, or is no adapter.
    """
    if not reference.startswith(("data:", "http://", "https://")):
        return load_adapter(Path(reference))
    try:
        with urllib.request.urlopen(reference, timeout=_TIMEOUT_SECONDS) as answer:
            content = answer.read()
    except (OSError, ValueError) as error:
        raise WeightsError(
            f"COG_WEIGHTS {reference[:_SHOWN]!r} cannot be read: {error}. Check the address."
        ) from error
    return adapter_from_bytes(content, reference[:_SHOWN])


def adapter_from_bytes(content: bytes, name: str) -> Adapter:
    """Read an adapter from a safetensors file's content; `name` is for the error's text.

    Raises:
        WeightsError: the content is no safetensors file, or no adapter.
    """
    try:
        tensors = load_tensors(content, name)
        header = json.loads(metadata_of(content)[FORMAT])
        labels, (method, base) = (
            _texts(header["labels"]),
            _texts([header["method"], header["base"]]),
        )
        return Adapter(
            tensors=tensors,
            labels=labels,
            method=method,
            base=base,
            scales=dict(header.get("scales", {})),
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        remedy = _PEFT if _is_of_peft(content) else "Use a file that train.py or save_adapter wrote"
        raise WeightsError(
            f"{name} holds no adapter: its metadata lacks a sound {FORMAT!r} entry. {remedy}."
        ) from error


def _is_of_peft(content: bytes) -> bool:
    """Return whether a safetensors file's content names its tensors as PEFT does."""
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    return b'"base_model.model.' in content[: _LENGTH_BYTES + length]


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError("these are no texts")
    return tuple(values)


def load_tensors(content: bytes, name: str) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file's content.

    Raises:
        WeightsError: the content is no such file, or its header is too long or lists too many
            tensors.
    """
    if content.startswith(ZIP_MARK):
        raise WeightsError(
            f"{name} is no safetensors file but a .zip. Upload a .zip of PEFT's files to POST "
            "/adapters, and send the id as `adapter`."
        )
    _check_header(content, name)
    try:
        tensors: dict[str, Tensor] = load(content)
    except SafetensorError as error:
        raise WeightsError(f"{name} is no safetensors file: {error}. Send one.") from error
    return tensors


def _check_header(content: bytes, name: str) -> None:
    """Bound the header before parsing: each of its entries and brackets becomes an object."""
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    if _MOST_HEADER_BYTES < length < len(content):
        raise WeightsError(
            f"{name} is no adapter: its header has {length:,} bytes; the limit is "
            f"{_MOST_HEADER_BYTES:,}. Send another."
        )
    end = _LENGTH_BYTES + length
    opened = content.count(b"{", 0, end) + content.count(b"[", 0, end)
    if opened > 3 * _MOST_TENSORS:  # a tensor has three opening brackets
        raise WeightsError(
            f"{name} is no adapter: its header has more than {_MOST_TENSORS:,} tensors. Send "
            "another."
        )


def metadata_of(content: bytes) -> dict[str, str]:
    """Return the metadata of a valid safetensors file's content."""
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    header = json.loads(content[_LENGTH_BYTES : _LENGTH_BYTES + length])
    metadata: dict[str, str] = header.get("__metadata__", {})
    return metadata


def header_of(path: Path) -> tuple[dict[str, Any], int]:
    """Read the header of an adapter's file, and count its tensors, without reading them.

    Raises:
        WeightsError: the file is no adapter.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        content = file.read(min(length, _MOST_HEADER_BYTES))
    try:
        whole = json.loads(content)
        header = json.loads(whole.pop("__metadata__")[FORMAT])
        labels, texts = header["labels"], (header["method"], header["base"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise WeightsError(f"{path.name} is no adapter's file: {error}.") from error
    if not isinstance(labels, list) or not all(isinstance(text, str) for text in texts):
        raise WeightsError(f"{path.name} is no adapter's file: its labels or its base are wrong.")
    return header, len(whole)


def base_digest(tensors: Mapping[str, Tensor]) -> str:
    """Return sixteen hex digits for a base's named tensors, the same on every device."""
    text = json.dumps(checksums(dict(tensors)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
