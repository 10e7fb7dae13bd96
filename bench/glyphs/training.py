"""Train the packaged base of the kind `diffusion`, in parts that go on where the last one ended.

    python -m bench.glyphs.corpus FOLDER
    python -m bench.glyphs.training FOLDER --steps 60000 --seconds 1800

A part ends after its seconds with FOLDER/state.pt; the last one also writes the weights,
FOLDER/model.safetensors. The same number of steps gives the same weights, in however many parts, on
one kind of CPU with one number of threads.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

from bench.glyphs.corpus import Corpus, files_of
from bench.glyphs.rendering import LETTERS, render
from bench.glyphs.styles import varied
from examples.diffusion.network import LEAST_SIGMA, STYLE_TOKENS, WIDTH, Drawer

_FONTS, _DRAWN, _MOST_GIVEN = 16, 4, 12  # of a step: 16 fonts, four letters each, up to 12 given
_RATE, _WARM_UP, _DECAY = 1e-3, 500, 0.25  # the last quarter of the steps goes down to nothing
_EMA = 0.999
_NO_STYLE = 0.1
_SAVE_SECONDS = 300


@dataclass
class Part:
    """Letters of some fonts of a step.

    Attributes:
        given: [fonts, 12, 1, 32, 32] in [-1, 1], whose style is read.
        given_letters: [fonts, 12].
        is_given: [fonts, 12].
        drawn: [fonts, 4, 1, 32, 32], to be drawn.
        drawn_letters: [fonts, 4].
    """

    given: Tensor
    given_letters: Tensor
    is_given: Tensor
    drawn: Tensor
    drawn_letters: Tensor


class Training:
    """The network, its average, and the optimizer, at a step.

    Args:
        fonts: uint8 [fonts, letters, 64, 64].
        steps: in all.
    """

    def __init__(self, fonts: Tensor, steps: int) -> None:
        self._fonts, self._steps = fonts, steps
        torch.manual_seed(0)
        self.drawer = Drawer()
        self.average = {name: t.clone() for name, t in self.drawer.state_dict().items()}
        self._optimizer = torch.optim.AdamW(
            self.drawer.parameters(), _RATE, betas=(0.9, 0.99), weight_decay=0.01, fused=True
        )
        self.step = 0

    def read(self, path: Path) -> None:
        """Go on from a file, whose number of steps in all may be another."""
        kept = torch.load(path)
        self.drawer.load_state_dict(kept["drawer"])
        self._optimizer.load_state_dict(kept["optimizer"])
        self.average, self.step = kept["average"], kept["step"]

    def write(self, path: Path) -> None:
        """Write everything that the next part needs."""
        state = {
            "drawer": self.drawer.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "average": self.average,
            "step": self.step,
        }
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def advance(self) -> float:
        """Take a step, whose draws depend on its number alone; return its loss."""
        draws = torch.Generator().manual_seed(self.step)
        for group in self._optimizer.param_groups:
            group["lr"] = _RATE * self._share_of_rate()
        loss = flow_loss(self.drawer, draw_part(self._fonts, draws), draws)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.drawer.parameters(), 1.0)
        self._optimizer.step()
        self.step += 1
        decay = min(_EMA, self.step / (self.step + 10))
        now = self.drawer.state_dict()
        torch._foreach_lerp_([*self.average.values()], [*now.values()], 1 - decay)
        return loss.item()

    def _share_of_rate(self) -> float:
        left = (self._steps - self.step) / (self._steps * _DECAY)
        return min(1.0, (self.step + 1) / _WARM_UP, max(left, 0.0))


def draw_part(fonts: Tensor, draws: torch.Generator) -> Part:
    """Draw fonts, a style for each, and letters of which some are given."""
    font = torch.randint(len(fonts), (_FONTS,), generator=draws)
    noise = torch.rand(_FONTS, len(LETTERS), generator=draws)
    letters = noise.argsort(1)[:, : _DRAWN + _MOST_GIVEN]
    pictures = varied(fonts[font.unsqueeze(1), letters].float() / 255, draws)
    pictures = (pictures * 2 - 1).unsqueeze(2)
    count = torch.randint(1, _MOST_GIVEN + 1, (_FONTS, 1), generator=draws)
    return Part(
        given=pictures[:, _DRAWN:],
        given_letters=letters[:, _DRAWN:],
        is_given=torch.arange(_MOST_GIVEN) < count,
        drawn=pictures[:, :_DRAWN],
        drawn_letters=letters[:, :_DRAWN],
    )


def flow_loss(drawer: Drawer, part: Part, draws: torch.Generator) -> Tensor:
    """Return the mean squared error of the velocity."""
    style = drawer.reader(part.given, part.given_letters, part.is_given)
    has_none = torch.rand(len(style), generator=draws) < _NO_STYLE
    none = drawer.no_style.view(1, STYLE_TOKENS, WIDTH)
    style = torch.where(has_none.view(-1, 1, 1), none, style).repeat_interleave(_DRAWN, 0)
    clean = part.drawn.flatten(0, 1)
    sigma = torch.sigmoid(0.6 + torch.randn(len(clean), generator=draws))
    noise = torch.randn(clean.shape, generator=draws)
    share = sigma.view(-1, 1, 1, 1)
    noisy = (1 - share) * clean + share * noise
    picture = drawer(noisy, sigma, part.drawn_letters.flatten(), style)
    weight = sigma.clamp_min(LEAST_SIGMA).pow(-2)
    return (F.mse_loss(picture, clean, reduction="none").mean((1, 2, 3)) * weight).mean()


def fine_letters(folder: Path, corpus: Corpus) -> Tensor:
    """Return the training fonts at twice the size, uint8 [fonts, letters, 64, 64]."""
    kept = folder / "fine.npy"
    if not kept.exists():
        paths = files_of(folder)
        training = zip(corpus.packages, corpus.names, corpus.is_training, strict=True)
        drawn = [render(paths[package, name], 2) for package, name, trains in training if trains]
        np.save(kept, np.stack(drawn))
    return torch.from_numpy(np.load(kept))


def main() -> None:
    """Train a part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--seconds", type=float, default=1800)
    asked = parser.parse_args()
    state = asked.folder / "state.pt"
    training = Training(fine_letters(asked.folder, Corpus.read(asked.folder)), asked.steps)
    if state.exists():
        training.read(state)
    end, saved, losses = time.monotonic() + asked.seconds, time.monotonic(), []
    while training.step < asked.steps and time.monotonic() < end:
        losses.append(training.advance())
        if training.step % 250 == 0:
            print(f"{training.step} {np.mean(losses):.4f} {time.process_time():.0f} s", flush=True)
            losses.clear()
        if time.monotonic() - saved > _SAVE_SECONDS:
            training.write(state)
            saved = time.monotonic()
    training.write(state)
    if training.step == asked.steps:
        kept = {name: t.half() for name, t in training.average.items() if name != "style.weight"}
        save_file(kept, asked.folder / "model.safetensors")


if __name__ == "__main__":
    main()
