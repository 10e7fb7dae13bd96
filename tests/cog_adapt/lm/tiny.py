"""Tiny random models of the usual decoder families, as folders that transformers reads."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

from gradient_check.tests.models import seeded_module

CHAT = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TEXTS = [
    "the quick brown fox jumps over the lazy dog",
    "what is the best team for this ticket",
    "grüße aus München, 東京 and 🙂",
    "refund my money please, the parcel never came",
]
SMALL = {"num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 512}
USUAL = SMALL | {"hidden_size": 32, "intermediate_size": 64, "num_key_value_heads": 2}
PLACES = {"max_position_embeddings": 512}
FAMILIES = {
    "llama": lambda: LlamaConfig(**USUAL, **PLACES),
    "qwen2": lambda: Qwen2Config(**USUAL, **PLACES),
    "qwen3": lambda: Qwen3Config(**USUAL, **PLACES, head_dim=16),
    "mistral": lambda: MistralConfig(**USUAL, **PLACES, sliding_window=8),
    "gpt2": lambda: GPT2Config(vocab_size=512, n_positions=512, n_embd=32, n_layer=2, n_head=4),
}


def tokenizer(chat=True):
    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    special = ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    found.train_from_iterator(TEXTS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=found,
        eos_token="<|end|>",
        pad_token="<|end|>",
        chat_template=CHAT if chat else None,
    )


def write_model(folder: Path, family="llama", chat=True, scale=1.0):
    """Write a model whose weights are drawn from one seed; a scale makes it surer of itself."""
    config = FAMILIES[family]()
    config.eos_token_id = config.bos_token_id = config.pad_token_id = 0
    module = seeded_module(lambda: AutoModelForCausalLM.from_config(config))
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.mul_(scale)
    module.save_pretrained(folder)
    tokenizer(chat).save_pretrained(folder)
    return folder
