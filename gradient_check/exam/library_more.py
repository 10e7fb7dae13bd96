"""Healthy models of transformers of further families, and adapters of peft of further kinds."""

from functools import partial
from typing import Any

import torch
import transformers

from gradient_check.exam.case import rows
from gradient_check.exam.library_other import adapted
from gradient_check.exam.library_text import (
    GROUPED,
    IDS,
    LABELS,
    PADS,
    SMALL,
    STATES,
    WORDS,
    add,
    attentions,
    build,
    given,
    last,
)

LABELLED = {**WORDS, "labels": IDS}
ENCODED: dict[str, Any] = {**SMALL, **PADS}
ROUTED = {**LABELLED, "output_router_logits": True}
SWITCH: dict[str, Any] = {
    **{"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 99},
    **{"num_experts": 4, "expert_capacity": 20, "num_sparse_encoder_layers": 1},
    **{"num_sparse_decoder_layers": 1, "decoder_start_token_id": 0, "router_jitter_noise": 0.0},
}
DEEPSEEK: dict[str, Any] = {
    **{**SMALL, **PADS, "num_key_value_heads": 4, "kv_lora_rank": 8, "q_lora_rank": 8},
    **{"qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8, "head_dim": 4},
    **{"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    **{"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "n_shared_experts": 1},
}
OSS = {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8}
OLMOE = {**GROUPED, "num_experts": 4, "num_experts_per_tok": 2}
MAMBA2: dict[str, Any] = {
    **{"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "vocab_size": 99, **PADS},
    **{"num_heads": 8, "head_dim": 8, "expand": 2, "n_groups": 2, "chunk_size": 4},
}
LED_SIZES: dict[str, Any] = {
    **{"d_model": 32, "vocab_size": 99, "attention_window": 4, **PADS},
    **{"max_encoder_position_embeddings": 40, "max_decoder_position_embeddings": 40},
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 48), "decoder_start_token_id": 2,
}  # fmt: skip
SEGFORMER: dict[str, Any] = {
    **{"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "decoder_hidden_size": 16},
    **{"num_attention_heads": [1, 1, 2, 2], "num_labels": 3},
}
PATCHES: dict[str, Any] = {
    **{"num_input_channels": 3, "context_length": 16, "patch_length": 4, "patch_stride": 4},
    **{"prediction_length": 4, "d_model": 16, "num_attention_heads": 2, "ffn_dim": 16},
    **{"num_hidden_layers": 2},
}
SERIES = {"past_values": rows(2, 16, 3), "future_values": rows(2, 4, 3, seed=1)}
PICTURES = {"pixel_values": rows(2, 3, 32, 32)}
_small_image = {k: v for k, v in SMALL.items() if "vocab" not in k and "max" not in k}

add("DeepseekV3, loss", partial(build, "DeepseekV3ForCausalLM", "DeepseekV3Config", **DEEPSEEK),
    LABELLED, given)  # fmt: skip
add("GptOss, router logits", partial(build, "GptOssForCausalLM", "GptOssConfig", **OSS),
    ROUTED, given)  # fmt: skip
add("Olmoe, router logits", partial(build, "OlmoeForCausalLM", "OlmoeConfig", **OLMOE),
    ROUTED, given)  # fmt: skip
add("SwitchTransformers, router logits",
    partial(build, "SwitchTransformersForConditionalGeneration", "SwitchTransformersConfig",
            **SWITCH), ROUTED, given, "unreached")  # fmt: skip
add("Mamba2, loss", partial(build, "Mamba2ForCausalLM", "Mamba2Config", **MAMBA2),
    {"input_ids": IDS, "labels": IDS}, given)  # fmt: skip
_recurrent = {"num_hidden_layers": 3, "lru_width": 32, "attention_window_size": 8}
if transformers.__version__ >= "5":  # version 4 leaks its cache, so a second backward raises
    add("RecurrentGemma, loss", partial(build, "RecurrentGemmaForCausalLM", "RecurrentGemmaConfig",
                                        **{**GROUPED, **_recurrent}), LABELLED, given,
        "leak")  # fmt: skip
add("LED, loss", partial(build, "LEDForConditionalGeneration", "LEDConfig", **LED_SIZES),
    LABELLED, given, "unused")  # fmt: skip
for _name, _more in (
    ("FNet", {"use_tpu_fourier_optimizations": False}),
    ("Nystromformer", {"num_landmarks": 3, "segment_means_seq_len": 9, "conv_kernel_size": 3}),
    ("Longformer", {"attention_window": 4}),
    ("BigBird", {"attention_type": "original_full"}),
    ("MegatronBert", {}),
    ("ErnieM" if hasattr(transformers, "ErnieMConfig") else "Ernie", {}),
    ("Camembert", {}),
    ("SqueezeBert", {"embedding_size": 32}),
    ("Data2VecText", {}),
    ("LayoutLM", {"max_2d_position_embeddings": 40}),
):
    _given = {"input_ids": IDS, "labels": LABELS}
    _make = partial(build, f"{_name}ForSequenceClassification", f"{_name}Config")
    _true = {"Longformer": ("dead",), "BigBird": ("unused",)}.get(_name, ())
    add(f"{_name}, loss", partial(_make, **{**ENCODED, **_more}), _given, given, *_true)
add("XLNet, hidden states", partial(build, "XLNetModel", "XLNetConfig", vocab_size=99, d_model=32,
                                    n_layer=2, n_head=4, d_inner=48), {**WORDS, **STATES}, last,
    "unused")  # fmt: skip
add("Funnel, last state", partial(build, "FunnelModel", "FunnelConfig", vocab_size=99, d_model=32,
                                  block_sizes=[1, 1], n_head=4, d_head=8, d_inner=48), WORDS, last,
    "unused")  # fmt: skip
_segformer = partial(build, "SegformerForImageClassification", "SegformerConfig", **SEGFORMER)
add("Segformer, loss", _segformer, {**PICTURES, "labels": LABELS}, given, "dead", "vanishing")
add("Siglip, last state", partial(build, "SiglipVisionModel", "SiglipVisionConfig", image_size=32,
                                  patch_size=8, **_small_image), PICTURES, last,
    "unused")  # fmt: skip
add("PatchTST, loss", partial(build, "PatchTSTForPrediction", "PatchTSTConfig", **PATCHES),
    SERIES, given)  # fmt: skip
add("Gemma3, attentions", partial(build, "Gemma3ForCausalLM", "Gemma3TextConfig", **GROUPED,
                                  head_dim=8, attn_implementation="eager"),
    {**WORDS, "output_attentions": True}, attentions)  # fmt: skip


def checkpointed(reentrant: bool) -> Any:
    """Return a small Llama that recomputes its blocks."""
    model = build("LlamaForCausalLM", "LlamaConfig", **GROUPED)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    model.train()
    return model


def tied() -> Any:
    """Return a small Llama whose head is its table of words."""
    return build("LlamaForCausalLM", "LlamaConfig", **GROUPED, tie_word_embeddings=True)


def tuned(method: str, **values: Any) -> Any:
    """Return an adapter of peft, drawn anew."""
    torch.manual_seed(1)
    return adapted(method, **values)


add("Llama, recomputed blocks", partial(checkpointed, False), LABELLED, given)
add("Llama, tied words", tied, LABELLED, given)
_places = {"target_modules": ["q_proj", "v_proj"]}
if transformers.__version__ >= "5":
    for _name, _method, _extra in (
        ("AdaLoRA", "AdaLora", {"r": 4, "total_step": 10, **_places}),
        ("LoRA of words", "Lora", {"r": 4, "target_modules": ["embed_tokens", "q_proj"]}),
        ("LoRA with a whole head", "Lora", {"r": 4, **_places, "modules_to_save": ["lm_head"]}),
        ("PiSSA", "Lora", {"r": 4, "init_lora_weights": "pissa", **_places}),
        ("OLoRA", "Lora", {"r": 4, "init_lora_weights": "olora", **_places}),
        ("LN tuning", "LNTuning", {"target_modules": ["input_layernorm", "norm"]}),
        ("HRA", "HRA", {"r": 4, **_places}),
        ("VBLoRA", "VBLoRA", {"r": 4, "num_vectors": 8, "vector_length": 8, **_places}),
        ("RandLoRA", "RandLora", {"r": 4, **_places}),
        ("trained tokens", "TrainableTokens", {"token_indices": [6, 7, 8]}),
        ("P-tuning", "PromptEncoder", {"num_virtual_tokens": 3, "encoder_hidden_size": 16}),
    ):
        add(
            f"peft, {_name}",
            partial(tuned, _method, **_extra),
            LABELLED,
            given,
            "unused",
            "vanishing",
        )
