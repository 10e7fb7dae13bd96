"""Speech written down by Whisper tiny.en (Radford et al. 2022, arXiv 2212.04356, MIT)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import WhisperFeatureExtractor

from cog_adapt import Batch, Example, Task
from examples.speech.network import load_network, load_tokenizer
from examples.speech.sounds import HERTZ, file_of, seconds_of, wave_of
from examples.speech.words import token_rows, written

_BEGIN, _END = [50257, 50362], 50256  # <|startoftranscript|><|notimestamps|>, <|endoftext|>
_IGNORED, _LONGEST = -100, 60  # tokens of an answer


class Transcription(Task):
    """Inputs are WAV files, their bytes, base64 or data URIs; targets are transcripts."""

    lora_targets = r"model\.decoder\..*(q_proj|v_proj)"
    max_decoding, decoding_unit = 3_600, "seconds of sound"
    part_tokens = 60  # a sound counts 117: the encoder hears one at a tick, a step answers two
    blocks = r"model\.encoder\.layers\.\d+"  # frozen: each sound is heard once, not at each step

    def __init__(self) -> None:
        self._tokenizer = load_tokenizer()
        self._listen = WhisperFeatureExtractor()

    def load(self) -> nn.Module:
        return load_network()

    def example(self, row: Mapping[str, Any]) -> Example:
        example = super().example(row)
        content = file_of(example.input)
        seconds_of(content)  # a mistake is named by its row
        return Example(content, written(example.target))

    def decoding_cost(self, value: Any) -> int:
        return seconds_of(file_of(value))

    def decode_input(self, value: Any) -> np.ndarray:
        """Return the encoder's input, (80, 3000)."""
        sound = wave_of(file_of(value))
        heard = self._listen(sound, sampling_rate=HERTZ, return_tensors="np")
        features: np.ndarray = heard["input_features"][0]
        return features

    def encode(self, inputs: Sequence[Any]) -> Batch:
        return {"x": torch.from_numpy(np.stack(inputs))}

    def encode_targets(self, targets: Sequence[Any], labels: Sequence[str]) -> Tensor:
        return token_rows(self._tokenizer, targets, _END, _IGNORED)

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
