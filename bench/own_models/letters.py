"""Letters, by hand: a plain PyTorch loop with peft's LoRA and a style that is trained beside it."""

import base64
import copy
import importlib
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from PIL import Image

from bench.glyphs.rendering import LETTERS, render
from bench.own_models.contest import Kind, Outcome, Way, asked, by_hand, on_model_thread, runner_of
from cog_adapt import Recipe, Request

FONT = Path("/usr/share/fonts/truetype/isabella/Isabella.ttf")
_GIVEN = "HOAnageR"
_REST = "".join(letter for letter in LETTERS if letter not in _GIVEN)
_STEPS, _DRAWS, _RATE, _STYLE_RATE, _RANK = 100, 4, 1e-3, 2e-2, 8
_EULER = 12
_LAYERS = (
    r".*transformer_blocks\..*"
    r"(to_[qkv]|to_out\.0|add_[qkv]_proj|to_add_out|net\.0\.proj|net\.2|proj_mlp|proj_out)"
)


@contextmanager
def ways(scratch: Path) -> Iterator[tuple[Way, Way]]:
    """Give the two ways to adapt to eight letters of a typeface."""
    task = importlib.import_module("examples.diffusion.task").Letters()
    drawing = importlib.import_module("examples.diffusion.drawing")
    letters = dict(zip(LETTERS, render(FONT), strict=True))
    rows = [{"caption": each, "image": _uri(letters[each])} for each in _GIVEN]
    truth = np.stack([letters[each] for each in _REST])
    batch = task.encode([task.decode_input(task.example(row).input) for row in rows])
    module = task.load().eval()

    def score(answers: Sequence[np.ndarray]) -> float:
        return 1 - float(np.abs(answers[0].astype(float) - truth).mean()) / 255

    with runner_of(task, scratch) as runner:

        def ours(seed: int) -> Outcome:
            recipe = Recipe(
                max_steps=_STEPS, batch_size=8, repeats=_DRAWS, learning_rate=_RATE, seed=seed
            )
            options = drawing.DrawOptions(steps=_EULER, form="raw", seed=seed)
            request = Request([_REST], examples=rows, recipe=recipe, options=options)
            return asked(runner, request, score)

        def hand(seed: int) -> Outcome:
            def adapt() -> Any:
                model, style = _trained(module, batch, seed)
                return lambda: [_drawn(model, style, seed)]

            return by_hand([_drawn(module, module.no_style.detach(), seed)], adapt, score)

        yield ours, on_model_thread(runner, hand)


def _uri(letter: np.ndarray) -> str:
    file = io.BytesIO()
    Image.fromarray(255 - letter).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _trained(module: Any, batch: dict[str, torch.Tensor], seed: int) -> tuple[Any, torch.Tensor]:
    torch.manual_seed(seed)
    with torch.no_grad():
        style = torch.nn.Parameter(module.read_style(**batch))
    config = LoraConfig(r=_RANK, lora_alpha=2 * _RANK, target_modules=_LAYERS)
    model = get_peft_model(copy.deepcopy(module).requires_grad_(False), config).train()
    pairs = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": pairs, "lr": _RATE}, {"params": [style], "lr": _STYLE_RATE}]
    optimizer = torch.optim.AdamW(groups)
    fall = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1.0 / _STEPS, _STEPS)
    picture, letter = (batch[name].repeat_interleave(_DRAWS, 0) for name in ("picture", "letter"))
    for _ in range(_STEPS):
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
def _drawn(model: Any, style: torch.Tensor, seed: int) -> np.ndarray:
    """Draw the letters that were not given, uint8 [54, 32, 32]."""
    letter = torch.tensor([LETTERS.index(each) for each in _REST])
    x = torch.randn(len(letter), 1, 32, 32, generator=torch.Generator().manual_seed(seed))
    tokens = style.view(1, 8, -1).expand(len(letter), -1, -1)
    levels = torch.linspace(1, 0, _EULER + 1).tolist()
    for sigma, following in zip(levels, levels[1:], strict=False):
        clean = model(x, torch.full((len(letter),), sigma), letter, tokens)
        x = x + (following - sigma) * (x - clean) / sigma
    drawn: np.ndarray = ((x.squeeze(1).clamp(-1, 1) + 1) * 127.5).round().byte().numpy()
    return drawn


KIND = Kind(
    f"diffusion: letters, eight of a typeface, {_STEPS} steps",
    "examples/diffusion",
    "1 - L1",
    "peft's LoRA and a style, 100 steps of 32",
    {
        "diffusers": "diffusers",
        "peft": "peft",
        "Debian's fonts-isabella": str(FONT),
    },
    ways,
)
