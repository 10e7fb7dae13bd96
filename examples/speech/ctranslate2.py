"""Reads the weights of a Whisper model from a file of CTranslate2 (version 6).

The file is little-endian: version, name and revision of the model; a count of variables, each
with its name, shape, type and bytes; a count of aliases. CTranslate2 joins the projections of an
attention (query, key, value; key and value across) row by row.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

_VERSION = 6
_PARTS = {
    "conv1": "conv1",
    "conv2": "conv2",
    "embeddings": "embed_tokens",
    "position_encodings": "embed_positions",
    "layer_norm": "layer_norm",
    "self_attention/layer_norm": "self_attn_layer_norm",
    "self_attention/linear_0": "self_attn.q_proj self_attn.k_proj self_attn.v_proj",
    "self_attention/linear_1": "self_attn.out_proj",
    "attention/layer_norm": "encoder_attn_layer_norm",
    "attention/linear_0": "encoder_attn.q_proj",
    "attention/linear_1": "encoder_attn.k_proj encoder_attn.v_proj",
    "attention/linear_2": "encoder_attn.out_proj",
    "ffn/layer_norm": "final_layer_norm",
    "ffn/linear_0": "fc1",
    "ffn/linear_1": "fc2",
}
_LEAVES = {"weight": "weight", "bias": "bias", "encodings": "weight", "gamma": "weight"}


def whisper_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors in float32, by the names of `WhisperForConditionalGeneration`."""
    tensors: dict[str, Tensor] = {}
    for name, value in _variables(path):
        side, *middle, leaf = name.split("/")
        layer = (
            f"layers.{middle.pop(0)[6:]}." if middle[0].startswith("layer_") and middle[1:] else ""
        )
        names = _PARTS["/".join(middle)].split()
        for part, rows in zip(names, value.chunk(len(names)), strict=True):
            tensors[f"model.{side}.{layer}{part}.{_LEAVES.get(leaf, 'bias')}"] = rows.clone()
    keys = [name for name in tensors if name.endswith("k_proj.bias")]
    for name in keys:  # zeros, which the original has not
        del tensors[name]
    return tensors | {"proj_out.weight": tensors["model.decoder.embed_tokens.weight"]}


def _variables(path: Path) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights; the file's other variables are numbers of heads and the like."""
    with path.open("rb") as file:
        if _number(file, "<I") != _VERSION:
            raise ValueError(f"{path.name} is no file of CTranslate2 version {_VERSION}.")
        _text(file)
        _number(file, "<I")
        read = [_variable(file) for _ in range(_number(file, "<I"))]
    for name, shape, content in read:
        if shape:
            value = np.frombuffer(content, np.float16).reshape(shape)
            yield name, torch.from_numpy(value.astype(np.float32))


def _variable(file: BinaryIO) -> tuple[str, list[int], bytes]:
    name = _text(file)
    shape = [_number(file, "<I") for _ in range(_number(file, "<B"))]
    _number(file, "<B")  # the type: every tensor of this model is float16
    return name, shape, file.read(_number(file, "<I"))


def _number(file: BinaryIO, kind: str) -> int:
    value: int = struct.unpack(kind, file.read(struct.calcsize(kind)))[0]
    return value


def _text(file: BinaryIO) -> str:
    return file.read(_number(file, "<H"))[:-1].decode()
