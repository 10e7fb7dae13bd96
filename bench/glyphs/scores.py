"""How near drawn letters come to a font's own, and whether a judge reads them."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from skimage.metrics import structural_similarity

from bench.glyphs.corpus import Corpus, distances_of
from bench.glyphs.judge import Judge, scaled, train_judge
from examples.diffusion.network import LETTERS

Drawn = tuple[np.ndarray, dict[str, Any]]
"""Letters, uint8 [letters, 32, 32], and what else is known of them."""
GIVEN = {4: "HOae", 8: "HOAnageR", 16: "HOAnageRSMbdtks3"}


@dataclass(frozen=True)
class Case:
    """A font, the letters that are given, and a seed."""

    font: int
    given: int
    seed: int

    @property
    def places(self) -> list[int]:
        """Positions of the given letters."""
        return [LETTERS.index(letter) for letter in GIVEN[self.given]]

    @property
    def rest(self) -> list[int]:
        """Positions of the letters that are drawn and judged."""
        return [place for place in range(len(LETTERS)) if place not in self.places]


class Way(NamedTuple):
    """Letters of a case that were drawn in one way.

    Attributes:
        drawn: uint8 [letters, 32, 32].
        seconds: of the CPU.
        more: of an adaptation that says what it expects: that, and what was measured.
    """

    drawn: np.ndarray
    seconds: float
    more: dict[str, Any]


class Scores:
    """Judges drawn letters against a font's own.

    Args:
        corpus: the fonts.
        judge: reads letters.
        fonts: among which the right one is ranked.
    """

    def __init__(self, corpus: Corpus, judge: Judge, fonts: Sequence[int]) -> None:
        self._corpus, self._judge, self._fonts = corpus, judge, [*fonts]

    def row_of(self, case: Case, name: str, way: Way) -> dict[str, Any]:
        """Return the scores of a way that `Bench.draw` drew."""
        return {
            "way": name,
            "font": str(self._corpus.names[case.font]),
            "given": case.given,
            "seed": case.seed,
            **self.of(case, way.drawn),
            "CPU seconds": way.seconds,
            **way.more,
        }

    def of(self, case: Case, drawn: np.ndarray) -> dict[str, float]:
        """Return the distances to the truth, the share of letters read, and the font's rank."""
        truth = self._corpus.letters[case.font][case.rest]
        others = self._corpus.letters[self._fonts][:, case.rest]
        away = distances_of(drawn[None], others)[0]
        own = away[self._fonts.index(case.font)]
        pairs = zip(truth, drawn, strict=True)
        return {
            "L1": float(own),
            "SSIM": float(np.mean([structural_similarity(a, b, win_size=7) for a, b in pairs])),
            "letters read": self._share_read(drawn, case.rest),
            "the truth's letters read": self._share_read(truth, case.rest),
            "rank": float(1 + (away < own).sum()),
            "judge's distance": self._feature_distance(truth, drawn),
        }

    @torch.inference_mode()
    def _share_read(self, letters: np.ndarray, places: Sequence[int]) -> float:
        read = self._judge(scaled(letters)).argmax(1)
        return float((read == torch.tensor(places)).float().mean())

    @torch.inference_mode()
    def _feature_distance(self, truth: np.ndarray, drawn: np.ndarray) -> float:
        one, two = (self._judge.features(scaled(each)) for each in (truth, drawn))
        return float(1 - torch.nn.functional.cosine_similarity(one, two).mean())


def means_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the mean of each figure, and how often a way is nearer than the copied font."""
    found = []
    copied = {(r["font"], r["given"], r["seed"]): r for r in rows if "copied" in r["way"]}
    for way, given in dict.fromkeys((row["way"], row["given"]) for row in rows):
        own = [row for row in rows if (row["way"], row["given"]) == (way, given)]
        names = [name for name, value in own[0].items() if isinstance(value, float)]
        nearer = [
            row["L1"] < (c := copied[row["font"], given, row["seed"]])["L1"]
            and row["SSIM"] > c["SSIM"]
            for row in own
        ]
        means = {name: round(float(np.mean([row[name] for row in own])), 4) for name in names}
        found.append(
            {
                "way": way,
                "given": given,
                "cases": len(own),
                **means,
                "both nearer than copied": round(float(np.mean(nearer)), 3),
                **_estimates_of(own),
            }
        )
    return found


def _estimates_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how often the measured score lies within the error that was stated for it."""
    said = [row for row in rows if "expected" in row]
    within = [abs(row["measured"] - row["expected"]) <= row["expected error"] for row in said]
    chosen = Counter(row["chosen"] for row in said)
    return {"within its error": round(float(np.mean(within)), 3), "chosen": chosen} if said else {}


def judge_of(folder: Path, corpus: Corpus) -> Judge:
    """Return a judge that has seen no held-out font; it is kept in the folder."""
    held = np.concatenate([*corpus.held_out.values()])
    others = np.delete(corpus.letters, held, axis=0)
    kept = folder / f"judge-{hashlib.sha256(others.tobytes()).hexdigest()[:8]}.pt"
    judge = Judge(len(LETTERS))
    if kept.exists():
        judge.load_state_dict(torch.load(kept))
        return judge.eval()
    judge = train_judge(others, steps=1500)
    torch.save(judge.state_dict(), kept)
    return judge
