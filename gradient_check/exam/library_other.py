"""Healthy models of transformers that encode and decode, see or hear; and adapters of peft."""

from functools import partial
from typing import Any

import torch
import transformers

from gradient_check.exam.case import rows
from gradient_check.exam.library_text import (
    IDS,
    LABELS,
    PADS,
    SMALL,
    STATES,
    WEIGHTS,
    WORDS,
    add,
    attentions,
    build,
    given,
    last,
    with_states,
)  # fmt: skip

PIXELS = {"pixel_values": rows(2, 3, 32, 32)}
LABELLED = {**WORDS, "labels": IDS}
SIZES: dict[str, Any] = {k: v for k, v in SMALL.items() if "vocab" not in k and "max" not in k}
BART: dict[str, Any] = {
    **{"d_model": 32, "vocab_size": 99, "max_position_embeddings": 40},
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 48), **PADS,
    "decoder_start_token_id": 2,
}  # fmt: skip
T5 = {
    **{"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 99},
    "decoder_start_token_id": 0,
}
WHISPER = {**BART, "num_mel_bins": 8, "max_source_positions": 10}


def both(output: Any) -> Any:
    """Return the loss and the encoder's hidden states."""
    return output.loss + sum(s.square().mean() for s in output.encoder_hidden_states)


for _name, _values in {"T5": T5, "MT5": T5, "UMT5": T5, "Bart": BART, "MBart": BART,
                       "Marian": BART, "Pegasus": BART, "LongT5": T5}.items():  # fmt: skip
    _kind = "MarianMTModel" if _name == "Marian" else f"{_name}ForConditionalGeneration"
    _make = partial(build, _kind, f"{_name}Config", **_values)
    add(f"{_name}, loss", _make, LABELLED, given)
    add(f"{_name}, hidden states", _make, {**LABELLED, **STATES}, both)
SOUNDS = {"input_features": rows(2, 8, 20), "labels": IDS}
_whisper = partial(build, "WhisperForConditionalGeneration", "WhisperConfig", **WHISPER)
add("Whisper, loss", _whisper, SOUNDS, given)
add("Whisper, hidden states", _whisper, {**SOUNDS, **STATES}, both)
_image = {**SIZES, "image_size": 32, "patch_size": 8}
for _name in ("ViT", "DeiT", "Beit", "Dinov2"):
    _more = ("unused",) if _name == "Dinov2" else ()  # Dinov2's mask token
    _make = partial(build, f"{_name}ForImageClassification", f"{_name}Config", **_image)
    add(f"{_name}, loss", _make, {**PIXELS, "labels": LABELS}, given, *_more)
    add(
        f"{_name}, hidden states",
        _make,
        {**PIXELS, "labels": LABELS, **STATES},
        with_states,
        *_more,
    )
    _eager = partial(_make, attn_implementation="eager")
    add(f"{_name}, attentions", _eager, {**PIXELS, **WEIGHTS}, attentions, *_more)
_swin = {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1],
         "num_heads": [2, 2], "window_size": 4}  # fmt: skip
add("Swin, loss", partial(build, "SwinForImageClassification", "SwinConfig", **_swin),
    {**PIXELS, "labels": LABELS}, given)  # fmt: skip
_stages = {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}
add("ConvNext, loss", partial(build, "ConvNextForImageClassification", "ConvNextConfig", **_stages),
    {**PIXELS, "labels": LABELS}, given, "vanishing")  # fmt: skip
add("ResNet, loss", partial(build, "ResNetForImageClassification", "ResNetConfig", **_stages),
    {**PIXELS, "labels": LABELS}, given)  # fmt: skip
_wave = {**SIZES, "vocab_size": 20, "conv_dim": (16, 16), "conv_stride": (4, 4),
         "conv_kernel": (8, 8), "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2,
         "num_feat_extract_layers": 2, "layerdrop": 0.0, "pad_token_id": 0,
         "mask_time_prob": 0.0}  # fmt: skip
for _name in ("Wav2Vec2", "Hubert"):
    add(f"{_name}, last state", partial(build, f"{_name}Model", f"{_name}Config", **_wave),
        {"input_values": rows(2, 800)}, last, "unused")  # fmt: skip
_clip = {
    "text_config": {**SMALL, **PADS}, "vision_config": _image, "projection_dim": 16,
}  # fmt: skip


def matched(output: Any) -> Any:
    """Return CLIP's contrastive loss."""
    return torch.nn.functional.cross_entropy(output.logits_per_image, torch.arange(2))


def clip() -> Any:
    """Return a small CLIP."""
    return transformers.CLIPModel(transformers.CLIPConfig(**_clip))


add("CLIP, contrast", clip, {**WORDS, **PIXELS}, matched)
MAMBA = {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4, "vocab_size": 99, **PADS}
add("Mamba, loss", partial(build, "MambaForCausalLM", "MambaConfig", **MAMBA),
    {"input_ids": IDS, "labels": IDS}, given)  # fmt: skip


def adapted(method: str, **values: Any) -> Any:
    """Return a small Llama with an adapter of peft."""
    import peft

    config = getattr(peft, f"{method}Config")(task_type="CAUSAL_LM", **values)
    base = build("LlamaForCausalLM", "LlamaConfig", **SMALL, **PADS)
    return peft.get_peft_model(base, config)


_places = {"target_modules": ["q_proj", "v_proj"]}
if transformers.__version__ >= "5":
    for _name, _method, _extra in (
        ("LoRA", "Lora", {"r": 4, **_places}),
        ("rank-stabilized LoRA", "Lora", {"r": 4, "use_rslora": True, **_places}),
        ("LoHa", "LoHa", {"r": 4, **_places}),
        ("LoKr", "LoKr", {"r": 4, **_places}),
        ("OFT", "OFT", {"oft_block_size": 4, **_places}),
        ("VeRA", "Vera", {"r": 4, **_places}),
        ("IA3", "IA3", {**_places, "feedforward_modules": []}),
        ("BOFT", "BOFT", {"boft_block_size": 4, **_places}),
        ("FourierFT", "FourierFT", {"n_frequency": 8, **_places}),
        ("prompt tuning", "PromptTuning", {"num_virtual_tokens": 3}),
        ("prefix tuning", "PrefixTuning", {"num_virtual_tokens": 3}),
    ):
        add(f"peft, {_name}", partial(adapted, _method, **_extra), LABELLED, given)
    add("peft, DoRA", partial(adapted, "Lora", r=4, use_dora=True, **_places), LABELLED, given,
        "stop-gradient")  # fmt: skip
