"""A causal language model and its tokenizer, from a folder or an id of Hugging Face."""

import os
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PretrainedConfig
from transformers import PreTrainedTokenizerBase as Tokenizer
from transformers.pytorch_utils import Conv1D
from transformers.utils import logging

from cog_adapt.lm.bundled import bundled_folder
from cog_adapt.lm.key_values import ATTENTION
from cog_adapt.runner.errors import WeightsError


def model_name(named: str | Path | None = None) -> str:
    """Return the folder or id to load: the argument, MODEL, or the bundled SmolLM2-135M."""
    return str(named or os.environ.get("MODEL") or bundled_folder())


def read_config(name: str) -> PretrainedConfig:
    """Read a model's configuration (WeightsError if it cannot be read)."""
    found: PretrainedConfig = _read(AutoConfig, name)
    return found


def read_tokenizer(name: str) -> Tokenizer:
    """Read a fast tokenizer that pads on the left.

    Raises:
        WeightsError: it cannot be read, is no fast one, or has no token that ends a text.
    """
    tokenizer: Tokenizer = _read(AutoTokenizer, name, padding_side="left")
    if not tokenizer.is_fast:
        raise WeightsError(f"{name!r} has no tokenizer.json. Save one with its fast tokenizer.")
    if tokenizer.eos_token_id is None:
        raise WeightsError(f"the tokenizer of {name!r} has no `eos_token`. Name the one it uses.")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def read_model(name: str) -> nn.Module:
    """Read a model's weights in float32, with linear layers that LoRA knows."""
    shows = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # a progress bar would spoil the log
    try:
        how = {"dtype": torch.float32, "attn_implementation": ATTENTION}
        module: nn.Module = _read(AutoModelForCausalLM, name, **how)
    finally:
        if shows:
            logging.enable_progress_bar()
    for path, layer in [*module.named_modules()]:
        if isinstance(layer, Conv1D):
            owner, _, leaf = path.rpartition(".")
            setattr(module.get_submodule(owner), leaf, _linear(layer))
    return module


def _linear(layer: Conv1D) -> nn.Linear:
    """Return GPT-2's layer, whose weight is (in, out), as an `nn.Linear`."""
    rows, columns = layer.weight.shape
    found = nn.Linear(rows, columns, device="meta")
    found.weight = nn.Parameter(layer.weight.detach().t().contiguous())
    found.bias = nn.Parameter(layer.bias.detach())
    return found


def _read(reader: Any, name: str, **kwargs: Any) -> Any:  # noqa: ANN401 - transformers' classes
    try:
        return reader.from_pretrained(name, **kwargs)
    except (OSError, ValueError) as error:
        raise WeightsError(
            f"MODEL is {name!r}: {reader.__name__} cannot read it: {error} Name a folder with "
            "config.json, tokenizer.json and safetensors, or an id of Hugging Face."
        ) from error
