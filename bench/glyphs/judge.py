"""A small network that reads letters: it tells what a picture shows, and how alike styles are."""

import hashlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

_BATCH = 256
_STEPS = 600


class Judge(nn.Module):
    """Reads a letter: pictures [n, 1, 32, 32] in [-1, 1] to logits [n, letters]."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        widths = (1, 32, 64, 128)
        self.body = nn.Sequential(
            *(
                part
                for before, after in zip(widths, widths[1:], strict=False)
                for part in (
                    nn.Conv2d(before, after, 3, padding=1, bias=False),
                    nn.BatchNorm2d(after),
                    nn.ReLU(),
                    nn.MaxPool2d(2),
                )
            ),
            nn.Flatten(),
            nn.Linear(128 * 16, 128),
            nn.ReLU(),
        )
        self.head = nn.Linear(128, letters)

    def features(self, pictures: Tensor) -> Tensor:
        """Return what the last layer reads from, [n, 128]."""
        found: Tensor = self.body(pictures)
        return found

    def forward(self, pictures: Tensor) -> Tensor:
        """Return logits."""
        read: Tensor = self.head(self.features(pictures))
        return read


def train_judge(fonts: np.ndarray, seed: int = 0, steps: int = _STEPS) -> Judge:
    """Return a judge that has learned to read fonts.

    Args:
        fonts: uint8 [fonts, letters, 32, 32].
        seed: of weights and draws.
        steps: of 256 letters each.
    """
    count = fonts.shape[1]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        judge = Judge(count)
        optimizer = torch.optim.AdamW(judge.parameters(), 2e-3)
        for pictures, letters in _draws(fonts, seed, steps):
            optimizer.zero_grad()
            F.cross_entropy(judge(pictures), letters, label_smoothing=0.05).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return judge.eval()


def scaled(pictures: np.ndarray) -> Tensor:
    """Return uint8 [n, 32, 32] as the networks' [n, 1, 32, 32] in [-1, 1]."""
    return torch.from_numpy(pictures).float().div(127.5).sub(1).unsqueeze(1)


@torch.inference_mode()
def letters_read(judge: Judge, fonts: np.ndarray) -> np.ndarray:
    """Return which letters of fonts are read right, bool [fonts, letters]."""
    count = fonts.shape[1]
    found = [judge(scaled(font)).argmax(1).numpy() == np.arange(count) for font in fonts]
    return np.stack(found)


def readable_share(fonts: np.ndarray, packages: np.ndarray) -> np.ndarray:
    """Return the share of each font's letters that a reader of other packages reads, [fonts]."""
    half = np.array([hash_of(package) % 2 for package in packages]).astype(bool)
    share = np.empty(len(fonts))
    for other in (half, ~half):
        share[other] = letters_read(train_judge(fonts[~other]), fonts[other]).mean(1)
    return share


def hash_of(text: str) -> int:
    """Return a number that depends on a text alone."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _draws(fonts: np.ndarray, seed: int, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    draws = np.random.default_rng(seed)
    for _ in range(steps):
        font = draws.integers(len(fonts), size=_BATCH)
        letter = draws.integers(fonts.shape[1], size=_BATCH)
        yield scaled(fonts[font, letter]), torch.from_numpy(letter)
