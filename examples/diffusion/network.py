"""A flow-matching transformer that draws letters in a style, and reads a style from letters.

The transformer is diffusers' `FluxTransformer2DModel`, so that its layers have the names that LoRA
files of FLUX have. It predicts the picture itself, from which follows the velocity (Li & He 2025,
arXiv 2511.13720): patches of 8 × 8 are too coarse for a velocity from 128 channels.
"""

from itertools import pairwise
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any

import torch
from diffusers import FluxTransformer2DModel
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

LETTERS = ascii_uppercase + ascii_lowercase + digits
SIDE, PATCH = 32, 8
WIDTH = 128  # channels of the transformer and of a prompt's tokens
STYLE_TOKENS = 8
LEAST_SIGMA = 0.05  # below it, the velocity's error is not weighted up any more
_ACROSS = SIDE // PATCH


class PreciseLinear(nn.Linear):
    """A layer whose output is float32 under autocast too.

    FLUX's noise level takes the dtype of its first layer's output, times 1000: in bfloat16, levels
    of .620 and .622 would be one.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Map shape (..., in) to (..., out)."""
        return super().forward(input).float()

    @classmethod
    def replace_in(cls, transformer: Any) -> None:
        """Let the first layer of FLUX's transformer be one."""
        transformer.x_embedder.__class__ = cls


class Drawer(nn.Module):
    """Draws letters.

    Attributes:
        letter: tokens of the letters.
        no_style: tokens that stand where no style is wanted, [1024].
        style: tokens of learned styles, a row for each; the base has one, of no style.
        reader: reads a style from letters.
        transformer: of pictures, prompts and noise levels.
    """

    def __init__(self) -> None:
        super().__init__()
        self.letter = nn.Embedding(len(LETTERS), WIDTH)
        self.no_style = nn.Parameter(torch.randn(STYLE_TOKENS * WIDTH) / 8)
        self.style = nn.Embedding(1, STYLE_TOKENS * WIDTH)
        self.reader = StyleReader()
        self.transformer: Any = FluxTransformer2DModel(
            patch_size=1,
            in_channels=PATCH * PATCH,
            num_layers=3,
            num_single_layers=5,
            attention_head_dim=32,
            num_attention_heads=WIDTH // 32,
            joint_attention_dim=WIDTH,
            pooled_projection_dim=WIDTH,
            axes_dims_rope=(4, 14, 14),
        )
        PreciseLinear.replace_in(self.transformer)
        places = torch.arange(_ACROSS, dtype=torch.float32)
        rows, columns = torch.meshgrid(places, places, indexing="ij")
        ids = torch.stack([torch.zeros_like(rows), rows, columns], -1).view(-1, 3)
        self.register_buffer("picture_ids", ids, persistent=False)
        prompt = torch.zeros(1 + STYLE_TOKENS, 3)
        self.register_buffer("prompt_ids", prompt, persistent=False)

    def forward(
        self, x: Tensor, sigma: Tensor, letter: Tensor, style: Tensor, emphasis: float = 0.0
    ) -> Tensor:
        """Estimate the pictures without noise.

        Args:
            x: noisy pictures, [n, 1, 32, 32]; ink is 1, paper -1.
            sigma: the share of noise in each, [n].
            letter: positions in `LETTERS`, [n].
            style: tokens, [n, 8, 128].
            emphasis: how much further than it is a letter's token lies from the mean of all.

        Returns:
            Pictures, [n, 1, 32, 32].
        """
        name = self.letter(letter)
        if emphasis:
            name = name + emphasis * (name - self.letter.weight.mean(0))
        tokens = self.transformer(
            hidden_states=_patches(x),
            encoder_hidden_states=torch.cat([name.unsqueeze(1), style], 1),
            pooled_projections=name + style.mean(1),
            timestep=sigma,
            img_ids=self.picture_ids,
            txt_ids=self.prompt_ids,
            return_dict=False,
        )[0]
        return _picture(tokens)

    @property
    def style_shape(self) -> tuple[int, int]:
        """Tokens of a style, and their width."""
        return STYLE_TOKENS, WIDTH

    def read_style(self, picture: Tensor, letter: Tensor) -> Tensor:
        """Read a style from letters, [k, 1, 32, 32] and [k]; return its tokens, [1024]."""
        is_given = torch.ones_like(letter, dtype=torch.bool)
        style: Tensor = self.reader(picture[None], letter[None], is_given[None])
        return style.flatten()

    def style_of(self, rows: Tensor) -> Tensor:
        """Return the tokens of learned styles by their rows, [n] to [n, 8, 128]."""
        tokens: Tensor = self.style(rows).unflatten(1, self.style_shape)
        return tokens.to(self.letter.weight.dtype)


class StyleReader(nn.Module):
    """Reads the style that letters have in common."""

    def __init__(self) -> None:
        super().__init__()
        widths = (1, 24, 48, 96)
        self.strokes = nn.ModuleList(
            nn.Conv2d(before, after, 3, stride=2, padding=1) for before, after in pairwise(widths)
        )
        self.project = nn.Linear(96 * _ACROSS * _ACROSS, WIDTH)
        self.letter = nn.Embedding(len(LETTERS), WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.mix = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )
        self.asked = nn.Parameter(torch.randn(STYLE_TOKENS, WIDTH) / 8)
        self.attend = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.give = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, pictures: Tensor, letter: Tensor, is_given: Tensor) -> Tensor:
        """Read a style from each set of letters.

        Args:
            pictures: [sets, k, 1, 32, 32]; ink is 1, paper -1.
            letter: positions in `LETTERS`, [sets, k].
            is_given: False where a set has fewer letters, [sets, k].

        Returns:
            Tokens, [sets, 8, 128].
        """
        strokes = pictures.flatten(0, 1)
        for layer in self.strokes:
            strokes = F.gelu(layer(strokes))
        seen = self.project(strokes.flatten(1)).view(*letter.shape, WIDTH) + self.letter(letter)
        seen = seen + self.mix(self.norm(seen))
        asked = self.asked.expand(len(seen), -1, -1)
        read, _ = self.attend(asked, seen, seen, key_padding_mask=~is_given, need_weights=False)
        style: Tensor = read + self.give(read)
        return style


def load_network() -> Drawer:
    """Build the network with its packaged weights."""
    drawer = Drawer()
    kept = load_file(Path(__file__).parent / "model.safetensors")
    kept["style.weight"] = kept["no_style"].unsqueeze(0)
    drawer.load_state_dict({name: tensor.float() for name, tensor in kept.items()})
    return drawer


def _patches(pictures: Tensor) -> Tensor:
    cut = pictures.view(len(pictures), _ACROSS, PATCH, _ACROSS, PATCH)
    return cut.transpose(2, 3).reshape(len(pictures), _ACROSS * _ACROSS, PATCH * PATCH)


def _picture(tokens: Tensor) -> Tensor:
    cut = tokens.view(len(tokens), _ACROSS, _ACROSS, PATCH, PATCH)
    return cut.transpose(2, 3).reshape(len(tokens), 1, SIDE, SIDE)
