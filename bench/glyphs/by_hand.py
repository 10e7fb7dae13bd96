"""Letters learned and drawn by hand: a plain PyTorch loop with peft's LoRA and a trained style."""

import copy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn

from cog_adapt import Batch
from examples.diffusion.network import LETTERS, Drawer

_LAYERS = (
    r".*transformer_blocks\..*"
    r"(to_[qkv]|to_out\.0|add_[qkv]_proj|to_add_out|net\.0\.proj|net\.2|proj_mlp|proj_out)"
)
_EULER = 12


@dataclass(frozen=True)
class ByHand:
    """How letters are learned.

    Attributes:
        steps, draws, rank: of the steps, of each letter in a step, and of LoRA.
        rate, style_rate: of LoRA and of the style.
    """

    steps: int = 100
    draws: int = 4
    rank: int = 8
    rate: float = 1e-3
    style_rate: float = 2e-2


USUAL = ByHand()


def trained_by_hand(
    module: Drawer, batch: Batch, seed: int, how: ByHand = USUAL
) -> tuple[nn.Module, Tensor]:
    """Return a copy of the base with trained pairs, and its trained style.

    Args:
        module: the base.
        batch: of the given letters, as `Letters.encode` returns it.
        seed: of the noise and of LoRA's A.
        how: the sizes and rates.
    """
    torch.manual_seed(seed)
    with torch.no_grad():
        style = nn.Parameter(module.read_style(**batch))
    config = LoraConfig(r=how.rank, lora_alpha=2 * how.rank, target_modules=_LAYERS)
    model: nn.Module = get_peft_model(copy.deepcopy(module).requires_grad_(False), config).train()
    pairs = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": pairs, "lr": how.rate}, {"params": [style], "lr": how.style_rate}]
    optimizer = torch.optim.AdamW(groups)
    fall = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1.0 / how.steps, how.steps)
    picture, letter = (
        batch[name].repeat_interleave(how.draws, 0) for name in ("picture", "letter")
    )
    for _ in range(how.steps):
        sigma = torch.sigmoid(0.6 + torch.randn(len(picture)))
        share = sigma.view(-1, 1, 1, 1)
        noisy = (1 - share) * picture + share * torch.randn_like(picture)
        tokens = style.view(1, *module.style_shape).expand(len(picture), -1, -1)
        error = (model(noisy, sigma, letter, tokens) - picture).square().mean((1, 2, 3))
        loss = (error * sigma.clamp_min(0.05).pow(-2)).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([*pairs, style], 1.0)
        optimizer.step()
        fall.step()
    return model.eval(), style.detach()


@torch.inference_mode()
def drawn_by_hand(model: nn.Module, style: Tensor, text: str, seed: int) -> np.ndarray:
    """Draw the letters of a text, uint8 [letters, 32, 32]."""
    letter = torch.tensor([LETTERS.index(each) for each in text])
    x = torch.randn(len(letter), 1, 32, 32, generator=torch.Generator().manual_seed(seed))
    tokens = style.view(1, 8, -1).expand(len(letter), -1, -1)
    for sigma, following in pairwise(torch.linspace(1, 0, _EULER + 1).tolist()):
        clean = model(x, torch.full((len(letter),), sigma), letter, tokens)
        x = x + (following - sigma) * (x - clean) / sigma
    drawn: np.ndarray = ((x.squeeze(1).clamp(-1, 1) + 1) * 127.5).round().byte().numpy()
    return drawn
