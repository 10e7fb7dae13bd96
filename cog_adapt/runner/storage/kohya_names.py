"""Kohya's names of layers, which `sd-scripts`, A1111, Forge and ComfyUI read.

A layer's path has underscores for dots, after the name of its part of a pipeline. FLUX's blocks
have the names of its first release instead, where some layers of diffusers are one.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import product

from torch import nn

_PARTS = {
    "unet": ("lora_unet",),
    "transformer": ("lora_transformer",),
    "text_encoder": ("lora_te1", "lora_te"),
    "text_encoder_2": ("lora_te2",),
}
_FLUX = re.compile(r"transformer\.single_transformer_blocks\.\d+\.proj_mlp")
_BLOCKS = {
    "double_blocks": (
        "transformer_blocks",
        {
            "img_attn_qkv": ("attn.to_q", "attn.to_k", "attn.to_v"),
            "img_attn_proj": ("attn.to_out.0",),
            "img_mlp_0": ("ff.net.0.proj",),
            "img_mlp_2": ("ff.net.2",),
            "img_mod_lin": ("norm1.linear",),
            "txt_attn_qkv": ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"),
            "txt_attn_proj": ("attn.to_add_out",),
            "txt_mlp_0": ("ff_context.net.0.proj",),
            "txt_mlp_2": ("ff_context.net.2",),
            "txt_mod_lin": ("norm1_context.linear",),
        },
    ),
    "single_blocks": (
        "single_transformer_blocks",
        {
            "linear1": ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"),
            "linear2": ("proj_out",),
            "modulation_lin": ("norm.linear",),
        },
    ),
}
_EMBEDDERS = {
    "time_in": "timestep_embedder",
    "vector_in": "text_embedder",
    "guidance_in": "guidance_embedder",
}
_AROUND = {
    "img_in": "x_embedder",
    "txt_in": "context_embedder",
    "final_layer_linear": "proj_out",
} | {
    f"{theirs}_{layer}": f"time_text_embed.{ours}.{linear}"
    for (theirs, ours), (layer, linear) in product(
        _EMBEDDERS.items(), (("in_layer", "linear_1"), ("out_layer", "linear_2"))
    )
}


def kohya_names(template: nn.Module) -> dict[str, tuple[str, ...]]:
    """Return each name that a file may have, with the paths of the layers that it stands for.

    Of a layer's names the first is the one to write.
    """
    paths = [path for path, module in template.named_modules() if hasattr(module, "weight")]
    found: dict[str, tuple[str, ...]] = {}
    found |= _names_of_flux(paths) if any(_FLUX.fullmatch(path) for path in paths) else {}
    for path in paths:
        part, _, rest = path.partition(".")
        for prefix in _PARTS.get(part, ()):
            found.setdefault(f"{prefix}_{rest.replace('.', '_')}", (path,))
    return found


def _names_of_flux(paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
    known = set(paths)
    around = ((f"lora_unet_{theirs}", (f"transformer.{x}",)) for theirs, x in _AROUND.items())
    found = (*around, *_blocks(paths))
    return {name: layers for name, layers in found if known.issuperset(layers)}


def _blocks(paths: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for theirs, (ours, parts) in _BLOCKS.items():
        found = (re.match(rf"transformer\.{ours}\.(\d+)\.", path) for path in paths)
        numbers = sorted({int(match[1]) for match in found if match})
        for number, (name, layers) in product(numbers, parts.items()):
            block = f"transformer.{ours}.{number}"
            yield f"lora_unet_{theirs}_{number}_{name}", tuple(f"{block}.{x}" for x in layers)
