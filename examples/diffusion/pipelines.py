"""A folder of diffusers as one module: transformer, VAE and text encoders under their own names.

FLUX and Stable Diffusion 3 differ in how texts become tokens, and in what their transformers are
given; both estimate a flow's velocity on a VAE's latents. Numbers are those of diffusers'
pipelines.
"""

import copy
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import DiffusionPipeline
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_map

from cog_adapt import Batch, WeightsError
from examples.diffusion.network import PreciseLinear

_PARTS = ("transformer", "vae", "text_encoder", "text_encoder_2", "text_encoder_3")


class OnCpu(nn.Module):
    """A frozen part that stays on the CPU wherever the rest of the model goes.

    Args:
        part: gets its inputs on the CPU; its outputs are moved to where they came from.
    """

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part.cpu()

    def forward(self, ids: Tensor, **options: Any) -> Any:
        """Call the part with tokens, [n, tokens]."""
        found = self.part(ids.cpu(), **options)
        return tree_map(lambda each: each.to(ids.device), found)

    def _apply(self, fn: Any, recurse: bool = True) -> "OnCpu":
        """Leave the part where it is."""
        return self


class Pipeline(nn.Module):
    """What the two have in common.

    Attributes:
        transformer: estimates the velocity.
        vae: of pictures and latents.
        text_encoder, text_encoder_2, text_encoder_3: as the folder has them.
    """

    transformer: Any
    vae: Any
    text_encoder: Any
    text_encoder_2: Any
    text_encoder_3: Any
    most_tokens = 512
    guides_by_two = False  # forwards, the second of the empty text

    def __init__(self, loaded: Any, encodes_on_cpu: bool) -> None:
        super().__init__()
        for name in _PARTS:
            part = getattr(loaded, name, None)
            if part is not None:
                stays = name.startswith("text_encoder") and encodes_on_cpu
                setattr(self, name, OnCpu(part) if stays else part)

    @property
    def channels(self) -> int:
        """Channels of a latent."""
        return int(self.vae.config.latent_channels)

    @property
    def scale(self) -> int:
        """Pixels of a latent's side."""
        return int(2 ** (len(self.vae.config.block_out_channels) - 1))

    @property
    def sample_side(self) -> int:
        """Pixels of a side that it was trained on at most."""
        size = getattr(self.transformer.config, "sample_size", None) or 128
        return int(size) * self.scale

    def texts(self, ids: Batch) -> Batch:
        """Return what the transformer is given of texts: `embeds` [n, tokens, d], `pooled` [n, d].

        Args:
            ids: of each tokenizer, by its name, [n, tokens].
        """
        raise NotImplementedError

    def forward(self, x: Tensor, sigma: Tensor, texts: Batch, guidance: Tensor) -> Tensor:
        """Estimate the velocity of noisy latents, [n, c, h, w], at their shares of noise, [n]."""
        raise NotImplementedError

    def latents_of(self, pictures: Tensor) -> Tensor:
        """Return the latents of pictures from -1 to 1, [n, 3, 8h, 8w], as [n, c, h, w]."""
        config = self.vae.config
        latents = self.vae.encode(pictures.to(self.vae.dtype)).latent_dist.mode()
        found: Tensor = (latents - config.shift_factor) * config.scaling_factor
        return found

    def pictures_of(self, latents: Tensor) -> Tensor:
        """Return the pictures of latents, [n, 3, 8h, 8w], from -1 to 1."""
        config = self.vae.config
        latents = latents / config.scaling_factor + config.shift_factor
        found: Tensor = self.vae.decode(latents.to(self.vae.dtype), return_dict=False)[0]
        return found


class Flux(Pipeline):
    """FLUX: guidance is an input of the transformer, if it was trained with one."""

    def __init__(self, loaded: Any, encodes_on_cpu: bool) -> None:
        super().__init__(loaded, encodes_on_cpu)
        PreciseLinear.replace_in(self.transformer)

    def texts(self, ids: Batch) -> Batch:
        pooled = self.text_encoder(ids["tokenizer"]).pooler_output
        return {"embeds": self.text_encoder_2(ids["tokenizer_2"])[0], "pooled": pooled}

    def forward(self, x: Tensor, sigma: Tensor, texts: Batch, guidance: Tensor) -> Tensor:
        n, c, h, w = x.shape
        patches = x.view(n, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5)
        places = [torch.arange(size, device=x.device, dtype=x.dtype) for size in (h // 2, w // 2)]
        rows, columns = torch.meshgrid(*places, indexing="ij")
        velocity = self.transformer(
            hidden_states=patches.reshape(n, -1, 4 * c),
            timestep=sigma,
            guidance=guidance if self.transformer.config.guidance_embeds else None,
            pooled_projections=texts["pooled"],
            encoder_hidden_states=texts["embeds"],
            txt_ids=x.new_zeros(texts["embeds"].shape[1], 3),
            img_ids=torch.stack([torch.zeros_like(rows), rows, columns], -1).view(-1, 3),
            return_dict=False,
        )[0]
        parts = velocity.view(n, h // 2, w // 2, c, 2, 2)
        found: Tensor = parts.permute(0, 3, 1, 4, 2, 5).reshape(n, c, h, w)
        return found


class StableDiffusion3(Pipeline):
    """Stable Diffusion 3: guidance is a second forward, of the empty text."""

    most_tokens = 256
    guides_by_two = True

    def texts(self, ids: Batch) -> Batch:
        encoders = ((self.text_encoder, "tokenizer"), (self.text_encoder_2, "tokenizer_2"))
        clips = [encoder(ids[name], output_hidden_states=True) for encoder, name in encoders]
        embeds = torch.cat([each.hidden_states[-2] for each in clips], -1)
        width = int(self.transformer.config.joint_attention_dim)
        embeds = F.pad(embeds, (0, width - embeds.shape[-1]))
        if "tokenizer_3" in ids:
            more = self.text_encoder_3(ids["tokenizer_3"])[0]
        else:
            more = embeds.new_zeros(len(embeds), self.most_tokens, width)
        return {
            "embeds": torch.cat([embeds, more], 1),
            "pooled": torch.cat([each[0] for each in clips], -1),
        }

    def forward(self, x: Tensor, sigma: Tensor, texts: Batch, guidance: Tensor) -> Tensor:
        found: Tensor = self.transformer(
            hidden_states=x,
            timestep=sigma * 1000,
            encoder_hidden_states=texts["embeds"],
            pooled_projections=texts["pooled"],
            return_dict=False,
        )[0]
        return found


class Tokenizers:
    """A folder's tokenizers and scheduler: all that runs before the model.

    Args:
        loaded: diffusers' pipeline.
        most_tokens: of the T5 encoder.
    """

    def __init__(self, loaded: Any, most_tokens: int) -> None:
        self._scheduler = loaded.scheduler
        self._patch = int(loaded.transformer.config.patch_size)
        self._tokenizers: dict[str, Callable[..., Any]] = {}
        self._lengths: dict[str, int] = {}
        for name in ("tokenizer", "tokenizer_2", "tokenizer_3"):
            tokenizer = getattr(loaded, name, None)
            if tokenizer is not None:
                is_t5 = name == "tokenizer_3" or "T5" in type(tokenizer).__name__
                self._tokenizers[name] = tokenizer
                self._lengths[name] = most_tokens if is_t5 else tokenizer.model_max_length

    def ids(self, texts: Sequence[str]) -> Batch:
        """Return the tokens of texts by each tokenizer, [n, tokens]."""
        return {
            name: tokenizer(
                [*texts],
                padding="max_length",
                max_length=self._lengths[name],
                truncation=True,
                return_tensors="pt",
            ).input_ids
            for name, tokenizer in self._tokenizers.items()
        }

    def sigmas(self, steps: int, height: int, width: int) -> Tensor:
        """Return the shares of noise of latents before each step and after the last, [steps + 1].

        Large pictures stay longer where there is much noise.
        """
        scheduler = copy.deepcopy(self._scheduler)
        config = scheduler.config
        is_flux = self._patch == 1
        values = {"sigmas": np.linspace(1.0, 1 / steps, steps)} if is_flux else {}
        tokens = height * width // (4 if is_flux else self._patch**2)
        few, many = config.get("base_image_seq_len", 256), config.get("max_image_seq_len", 4096)
        low, high = (
            config.get("base_shift", 0.5),
            config.get("max_shift", 1.15 if is_flux else 1.16),
        )
        if config.get("use_dynamic_shifting"):
            values["mu"] = low + (tokens - few) * (high - low) / (many - few)
        scheduler.set_timesteps(steps, **values)
        found: Tensor = scheduler.sigmas
        return found


def load_folder(folder: str) -> tuple[Pipeline, Tokenizers]:
    """Load a folder that `save_pretrained` of FLUX or of Stable Diffusion 3 wrote.

    Raises:
        WeightsError: it is no such folder.
    """
    index = Path(folder) / "model_index.json"
    parts = json.loads(index.read_text()) if index.is_file() else {}
    kind = parts.get("_class_name", "no model_index.json")
    known = {"FluxPipeline": Flux, "StableDiffusion3Pipeline": StableDiffusion3}
    if kind not in known:
        raise WeightsError(
            f"MODEL is {folder!r}, a folder of {kind}; this kind takes {' and '.join(known)}. Name "
            "one, or unset MODEL for the packaged letters."
        )
    loaded = DiffusionPipeline.from_pretrained(
        folder,
        local_files_only=True,
        use_safetensors=True,
        dtype=torch.float32,
        **{name: None for name, value in parts.items() if value == [None, None]},
    )
    module = known[kind](loaded, encodes_on_cpu=os.environ.get("TEXT_ENCODERS") == "cpu")
    return module, Tokenizers(loaded, module.most_tokens)
