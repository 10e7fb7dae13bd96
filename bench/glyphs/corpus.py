"""The fonts of Debian that draw all letters: which train the base, and which only judge it.

    python -m bench.glyphs.corpus FOLDER

The folder gets the packages that `packages.txt` names, their fonts, and `corpus.npz`.
"""

import argparse
import hashlib
import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from bench.glyphs.judge import readable_share
from bench.glyphs.licences import licence_of
from bench.glyphs.rendering import Unusable, render

PACKAGES = Path(__file__).parent / "packages.txt"
FREE = ("ofl", "apache", "mit", "public-domain")
TWIN = 0.004  # fonts nearer than this are one
FAR = 0.05  # a judging font is at least this far from every training font
SETS = ("work", "shut", "sealed", "last")
_ENDINGS = (".ttf", ".otf", ".ttc", ".pfb")
_LEAST_READ = 0.5
_AT_ONCE = 20


@dataclass(frozen=True)
class Corpus:
    """Fonts and their letters.

    Attributes:
        letters: uint8 [fonts, letters, 32, 32]; 255 is ink.
        names: file names without endings.
        packages: of Debian.
        licences: as `licence_of` names them.
        is_training: whether a font may train the base.
        distances: to the nearest training font, L1 of all letters in [0, 1]; a training font's is
            to its nearest other.
        nearest: that font's position.
    """

    letters: np.ndarray
    names: np.ndarray
    packages: np.ndarray
    licences: np.ndarray
    is_training: np.ndarray
    distances: np.ndarray
    nearest: np.ndarray

    @classmethod
    def read(cls, folder: Path) -> "Corpus":
        """Read what `main` has written."""
        with np.load(folder / "corpus.npz") as kept:
            return cls(**{name: kept[name] for name in kept.files})

    @property
    def held_out(self) -> dict[str, np.ndarray]:
        """Positions of far fonts: `work` to choose by, the others to score once each.

        The digest of a font's name decides between `work` and `shut`; `sealed` has fonts that
        neither took, and `last` those that none took. Up to 40 in each, of one package at most a
        quarter, so that no foundry's taste decides.
        """
        far = np.flatnonzero(~self.is_training & (self.distances > FAR))
        by_digest = sorted(
            map(int, far), key=lambda i: hashlib.sha256(str(self.names[i]).encode()).digest()
        )
        sets: dict[str, list[int]] = {name: [] for name in SETS}
        for turn, font in enumerate(by_digest):
            asked = (SETS[turn % 2], *SETS[2:])
            takes = next((sets[name] for name in asked if self._has_room(sets[name], font)), None)
            if takes is not None:
                takes.append(font)
        return {name: np.array(fonts) for name, fonts in sets.items()}

    def _has_room(self, fonts: list[int], font: int) -> bool:
        alike = sum(self.packages[each] == self.packages[font] for each in fonts)
        return len(fonts) < 40 and alike < 10


def main() -> None:
    """Fetch, draw, choose, and say what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    fetch(folder)
    corpus = build(folder)
    np.savez_compressed(folder / "corpus.npz", **vars(corpus))
    report(corpus)


def fetch(folder: Path) -> None:
    """Download the packages, compare their digests, and unpack them into folders of their names.

    Raises:
        ValueError: a package is another than the one that is listed.
    """
    missing = [each for each in _listed() if not (folder / each[0]).is_dir()]
    for start in range(0, len(missing), _AT_ONCE):
        part = missing[start : start + _AT_ONCE]
        names = [f"{name}={version}" for name, version, _ in part if not _deb(folder, name)]
        if names:
            subprocess.run(["apt-get", "download", "-q", *names], cwd=folder, check=True)
        for name, _, digest in part:
            _unpack(folder, name, digest)


def files_of(folder: Path) -> dict[tuple[str, str], Path]:
    """Return the font files by their packages and names; of equal names, the last one."""
    return {
        (package, _font_name(path)): path
        for package, *_ in _listed()
        for path in sorted((folder / package).rglob("*"))
        if path.suffix.lower() in _ENDINGS and not path.is_symlink()
    }


def build(folder: Path) -> Corpus:
    """Draw every font, and leave out twins and what is no Latin alphabet.

    A font whose letters a small reader, trained on the other half of the packages, does not tell
    apart is a font of symbols.
    """
    drawn = {}
    for key, path in files_of(folder).items():
        with suppress(Unusable):
            drawn[key] = render(path)
    licences = {package: _licence_of_package(folder, package) for package, _ in drawn}
    packages = np.array([package for package, _ in drawn])
    names = np.array([name for _, name in drawn])
    licence = np.array([licences[package] for package in packages])
    letters, is_free = np.stack([*drawn.values()]), np.isin(licence, FREE)
    order = np.argsort(~is_free, kind="stable")  # of twins, the one that may train stays
    kept = order[_without_twins(letters[order])]
    kept = np.sort(kept[readable_share(letters[kept], packages[kept]) >= _LEAST_READ])
    nearest, distances = _nearest(letters[kept], is_free[kept])
    return Corpus(
        letters=letters[kept],
        names=names[kept],
        packages=packages[kept],
        licences=licence[kept],
        is_training=is_free[kept],
        distances=distances,
        nearest=nearest,
    )


def report(corpus: Corpus) -> None:
    """Print the counts."""
    far = ~corpus.is_training & (corpus.distances > FAR)
    print(f"{len(corpus.names)} fonts of {len(set(corpus.packages))} packages")
    for licence in sorted(set(corpus.licences)):
        print(f"  {licence}: {(corpus.licences == licence).sum()}")
    print(f"{corpus.is_training.sum()} train, {far.sum()} others are farther than L1 {FAR}")
    print({name: len(fonts) for name, fonts in corpus.held_out.items()})


def distances_of(letters: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the L1 of fonts to other fonts, [fonts, others], in [0, 1].

    Args:
        letters: uint8 [fonts, …].
        others: uint8 [others, …] of the same letters.
    """
    one, two = (torch.from_numpy(each.reshape(len(each), -1)).float() for each in (letters, others))
    return (torch.cdist(one, two, p=1) / (255 * one.shape[1])).numpy()


def _listed() -> list[list[str]]:
    """Return name, version and digest of each package."""
    return [line.split() for line in PACKAGES.read_text().splitlines()]


def _unpack(folder: Path, name: str, digest: str) -> None:
    deb = _deb(folder, name)[0]
    if hashlib.sha256(deb.read_bytes()).hexdigest() != digest:
        raise ValueError(f"{deb.name} has another digest than packages.txt. Remove it.")
    subprocess.run(["dpkg", "-x", deb, folder / name], check=True)
    deb.unlink()


def _licence_of_package(folder: Path, package: str) -> str:
    about = folder / package / "usr/share/doc" / package / "copyright"
    return licence_of(about.read_text(errors="replace")) if about.is_file() else "other"


def _font_name(path: Path) -> str:
    name = "/".join([path.parent.name, path.stem])
    return re.sub(r"[^A-Za-z0-9]+", "-", name)


def _without_twins(letters: np.ndarray) -> list[int]:
    count, each = letters.shape[:2]
    coarse = letters.reshape(count, each, 8, 4, 8, 4).mean((3, 5))  # its L1 is never above the L1
    maybe = distances_of(coarse, coarse) < TWIN
    kept: list[int] = []
    for font in range(count):
        alike = [other for other in kept if maybe[font, other]]
        if not alike or distances_of(letters[font : font + 1], letters[alike]).min() >= TWIN:
            kept.append(font)
    return kept


def _nearest(letters: np.ndarray, is_training: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    trained = np.flatnonzero(is_training)
    found = distances_of(letters, letters[trained])
    found[trained, np.arange(len(trained))] = np.inf
    return trained[found.argmin(1)], found.min(1)


def _deb(folder: Path, name: str) -> list[Path]:
    return list(folder.glob(f"{name}_*.deb"))


if __name__ == "__main__":
    main()
