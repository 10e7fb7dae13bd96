"""Folders of FLUX and of Stable Diffusion 3 with diffusers' own classes, small and untrained."""

import json
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase

import diffusers
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

_LETTERS = [*ascii_lowercase, *ascii_uppercase, *"0123456789.,!"]
_TEXT = 16  # channels of the text encoders


def write_flux(folder: Path, guidance_embeds: bool = True) -> None:
    """Write a folder of FLUX: patches of 2 x 2 latents, pictures of 32 x 32."""
    torch.manual_seed(0)
    transformer = diffusers.FluxTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=2,
        num_single_layers=2,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=_TEXT,
        pooled_projection_dim=_TEXT,
        guidance_embeds=guidance_embeds,
        axes_dims_rope=(4, 6, 6),
    )
    diffusers.FluxPipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=_vae(),
        text_encoder=_clip(transformers.CLIPTextModel),
        tokenizer=_clip_tokenizer(),
        text_encoder_2=_t5(),
        tokenizer_2=_t5_tokenizer(),
        transformer=transformer,
    ).save_pretrained(folder)


def write_sd3(folder: Path, has_t5: bool = True) -> None:
    """Write a folder of Stable Diffusion 3."""
    torch.manual_seed(0)
    transformer = diffusers.SD3Transformer2DModel(
        sample_size=16,
        patch_size=2,
        in_channels=4,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=4,
        caption_projection_dim=32,
        joint_attention_dim=2 * _TEXT,
        pooled_projection_dim=2 * _TEXT,
        out_channels=4,
    )
    diffusers.StableDiffusion3Pipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=_vae(),
        text_encoder=_clip(transformers.CLIPTextModelWithProjection),
        tokenizer=_clip_tokenizer(),
        text_encoder_2=_clip(transformers.CLIPTextModelWithProjection),
        tokenizer_2=_clip_tokenizer(),
        text_encoder_3=_t5(2 * _TEXT) if has_t5 else None,
        tokenizer_3=_t5_tokenizer() if has_t5 else None,
        transformer=transformer,
    ).save_pretrained(folder)


def pipeline_of(folder: str) -> diffusers.DiffusionPipeline:
    """Load a folder as diffusers does."""
    parts = json.loads((Path(folder) / "model_index.json").read_text())
    left_out = {name: None for name, value in parts.items() if value == [None, None]}
    loaded = diffusers.DiffusionPipeline.from_pretrained(folder, dtype=torch.float32, **left_out)
    loaded.set_progress_bar_config(disable=True)
    return loaded


def _vae() -> diffusers.AutoencoderKL:
    return diffusers.AutoencoderKL(
        block_out_channels=(8, 8),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        norm_num_groups=2,
        scaling_factor=1.5,
        shift_factor=0.1,
        sample_size=32,
        use_quant_conv=False,
        use_post_quant_conv=False,
    )


def _clip(kind: type) -> torch.nn.Module:
    config = transformers.CLIPTextConfig(
        hidden_size=_TEXT,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        projection_dim=_TEXT,
        vocab_size=2 * len(_LETTERS) + 2,
        bos_token_id=2 * len(_LETTERS),
        eos_token_id=2 * len(_LETTERS) + 1,
        pad_token_id=1,
    )
    return kind(config).eval()


def _t5(width: int = _TEXT) -> torch.nn.Module:
    config = transformers.T5Config(
        d_model=width,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        vocab_size=len(_LETTERS) + 3,
    )
    return transformers.T5EncoderModel(config).eval()


def _clip_tokenizer() -> transformers.PreTrainedTokenizerBase:
    names = [*_LETTERS, *(f"{each}</w>" for each in _LETTERS), "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {name: number for number, name in enumerate(names)}
    return transformers.CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=77)


def _t5_tokenizer() -> transformers.PreTrainedTokenizerBase:
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((each, -1.0) for each in _LETTERS)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.T5TokenizerFast(
        tokenizer_object=tokenizer, model_max_length=512, extra_ids=0
    )
