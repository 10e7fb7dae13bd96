"""Healthy models of transformers pass: tiny, drawn at random, with every kind of output."""

from typing import Any

import pytest
import torch
import transformers

from gradient_check import check_gradients
from gradient_check.exam.known.hosts import rows

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
TEXT: dict[str, Any] = {**SIZES, "vocab_size": 99, "max_position_embeddings": 32}
IMAGE: dict[str, Any] = {**SIZES, "image_size": 32, "patch_size": 8}
GROUPED: dict[str, Any] = {**TEXT, "num_key_value_heads": 2}
WHISPER: dict[str, Any] = {
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 1),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 48),
    **{"d_model": 32, "vocab_size": 99, "num_mel_bins": 8, "max_source_positions": 10},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
}
IDS = torch.randint(1, 90, (2, 7), generator=torch.Generator().manual_seed(0))
MASK = torch.tensor([[1] * 7, [1] * 5 + [0] * 2])
WORDS = {"input_ids": IDS, "attention_mask": MASK}
LABELLED = {**WORDS, "labels": IDS}
PIXELS = {"pixel_values": rows(2, 3, 32, 32)}
SOUNDS = {"input_features": rows(2, 8, 20), "labels": IDS}
EAGER = {"attn_implementation": "eager"}


def bert(**rest: Any) -> Any:
    config = transformers.BertConfig(**TEXT, **rest)
    return transformers.BertModel(config, add_pooling_layer=False)


def gpt2(**rest: Any) -> Any:
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 99}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **rest))


def llama(**rest: Any) -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED, **rest))


def mixtral(**rest: Any) -> Any:
    config = transformers.MixtralConfig(**GROUPED, num_local_experts=4, **rest)
    return transformers.MixtralForCausalLM(config)


def t5() -> Any:
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    config = transformers.T5Config(**sizes, vocab_size=99, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config)


def vit(**rest: Any) -> Any:
    return transformers.ViTModel(transformers.ViTConfig(**IMAGE, **rest), add_pooling_layer=False)


def whisper(**rest: Any) -> Any:
    config = transformers.WhisperConfig(**WHISPER, **rest)
    return transformers.WhisperForConditionalGeneration(config)


def squares(*tensors: Any) -> Any:
    return sum((t - 0.3).square().flatten(1).mean(1) for t in tensors)


def last(output: Any) -> Any:
    return squares(output.last_hidden_state)


def states(output: Any) -> Any:
    return squares(*output.hidden_states)


def attentions(output: Any) -> Any:
    return squares(*output.attentions)


def logits(output: Any) -> Any:
    return squares(output.logits)


def with_encoder(output: Any) -> Any:
    return output.loss + squares(*output.encoder_hidden_states).mean()


def whole(output: Any) -> Any:
    return output.loss


MODELS: dict[str, tuple[Any, Any, Any]] = {
    "bert": (bert, WORDS, last),
    "bert, hidden states": (bert, {**WORDS, "output_hidden_states": True}, states),
    "gpt2": (gpt2, WORDS, logits),
    "gpt2, cache": (gpt2, {**LABELLED, "use_cache": True}, whole),
    "gpt2, attentions": (
        lambda: gpt2(**EAGER),
        {**WORDS, "output_attentions": True},
        lambda output: logits(output) + attentions(output),
    ),
    "llama, states by config": (lambda: llama(output_hidden_states=True), LABELLED, whole),
    "mixtral, router": (mixtral, {**LABELLED, "output_router_logits": True}, whole),
    "t5": (t5, LABELLED, whole),
    "t5, hidden states": (t5, {**LABELLED, "output_hidden_states": True}, with_encoder),
    "vit": (vit, PIXELS, last),
    "whisper, hidden states": (whisper, {**SOUNDS, "output_hidden_states": True}, with_encoder),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_healthy_library_model_passes_without_a_warning(name: str) -> None:
    make, probe, loss = MODELS[name]
    report = check_gradients(make(), probe, loss)
    assert report.passed, report
    assert {finding.level for finding in report.findings} <= {"NOTE"}, report


def test_what_a_librarys_model_does_not_use_is_a_warning() -> None:
    module = transformers.BertModel(transformers.BertConfig(**TEXT))
    report = check_gradients(module, WORDS, last)
    assert [f.code for f in report.findings if f.level == "WARN"] == ["unused"]
    assert report.passed
    assert report.findings[0].parameters == ("pooler.dense.weight", "pooler.dense.bias")


def test_a_librarys_model_that_the_user_forgot_fails() -> None:
    class Forgetful(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = vit()
            self.head = torch.nn.Linear(4, 2)

        def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
            return self.head(pixel_values.flatten(1)[:, :4])

    report = check_gradients(Forgetful(), PIXELS, squares)
    assert [(f.level, f.code) for f in report.findings] == [("FAIL", "unused")]
