"""Counts the files that a reader opens to find where a change of the past belongs, in two trees.

    python -m bench.house.places --old f7a21a1 --new HEAD --output docs/results/places.md

A change is a commit that edits the package, and moves no file. Its place in a tree is the module
that has most of the lines that it added. All commits count whose place both trees have, with half
of its lines at least; the page lists every n-th of them.
"""

import argparse
import ast
import io
import re
import statistics
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
PACKAGES = ("cog_adapt", "gradient_check")
_LEAST = 20  # characters of a line that tells where it is from
_COUNT, _SHOWN = 30, 60
_HOW = """\
The count, in both trees alike: a reader has the subject of the commit. In each folder, from the top
on, the entries (modules, and rooms with their `__init__.py`) are sorted by the number of words of
the subject in the entry's name and in the first line of its docstring, then by name. The reader
opens the entries in this order until the right one. The count is the sum over all folders on the
path: the entries listed before the right one, and one more for each level. Words have five letters
or more, without the ends of plurals and tenses; tests are left out.

Limits of the count: a reader knows more than words, and searches; a subject uses the words of the
tree of its day; the two pages that describe the packages (`ARCHITECTURE.md` and, in the later tree,
`rooms.md`) are not counted; a change in several modules counts as a change of the module that has
most of its lines."""


@dataclass(frozen=True)
class Change:
    """A commit, and the lines that it added to the package."""

    commit: str
    subject: str
    lines: frozenset[str]


class Modules:
    """The modules of a tree.

    Args:
        texts: the sources, by path.
    """

    def __init__(self, texts: Mapping[PurePosixPath, str]) -> None:
        self.texts = texts
        self._of_line: dict[str, list[PurePosixPath]] = {}
        for path, text in self.texts.items():
            for line in _telling(text.splitlines()):
                self._of_line.setdefault(line, []).append(path)

    def place(self, change: Change) -> PurePosixPath | None:
        """Return the module with most of a change's lines; None with fewer than half of them."""
        found = Counter(path for line in change.lines for path in self._of_line.get(line, ()))
        best = max(found, key=lambda path: (found[path], str(path)), default=None)
        return best if best and 2 * found[best] >= len(change.lines) else None

    def opened(self, subject: str, place: PurePosixPath) -> int:
        """Return how many entries a reader of a subject opens until a module is found."""
        words = _words(subject)
        way = [*place.parents[:-1]][::-1]
        steps = [*zip([PurePosixPath(), *way], [*way, place], strict=True)]
        return sum(self._position(words, folder, right) for folder, right in steps)

    def _position(self, words: set[str], folder: PurePosixPath, right: PurePosixPath) -> int:
        depth = len(folder.parts)
        inside = {path for path in self.texts if path.parts[:depth] == folder.parts}
        entries = {PurePosixPath(*path.parts[: depth + 1]) for path in inside}

        def rank(entry: PurePosixPath) -> tuple[int, str]:
            return -len(words & self._described(entry)), str(entry)

        return sorted(entries, key=rank).index(right) + 1

    def _described(self, entry: PurePosixPath) -> set[str]:
        text = self.texts.get(entry) or self.texts.get(entry / "__init__.py", "")
        first = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
        return _words(f"{entry.stem} {first}")


def read_modules(commit: str) -> Modules:
    """Read the modules of the packages at a commit, without tests."""
    there = _git("ls-tree", "--name-only", commit).split()
    wanted = [name for name in PACKAGES if name in there]
    archive = subprocess.run(
        ["git", "archive", commit, *wanted], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        return Modules(dict(_sources_in(files)))


def _sources_in(files: tarfile.TarFile) -> Iterator[tuple[PurePosixPath, str]]:
    for member in files:
        path = PurePosixPath(member.name)
        file = files.extractfile(member) if path.suffix == ".py" else None
        if file is not None and "tests" not in path.parts:
            yield path, file.read().decode()


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True)
    return done.stdout.decode(errors="replace")


def _words(text: str) -> set[str]:
    """Return the words of five letters or more, without the ends of plurals and tenses."""
    found = re.findall(r"[a-z]{5,}", text.lower().replace("_", " "))
    return {re.sub(r"(ing|ed|es|s)$", "", word) for word in found}


def _telling(lines: Sequence[str]) -> set[str]:
    stripped = (line.strip() for line in lines)
    return {line for line in stripped if len(line) >= _LEAST and not line.startswith("from ")}


def changes(last: str) -> Iterator[Change]:
    """Yield the changes up to a commit, the first one first."""
    options = ("--reverse", "--no-merges", "-p", "-U0", "-M", "--format=%x00%h%x01%s%x01")
    for entry in _git("log", *options, last, "--", "cog_adapt/**.py").split("\0")[1:]:
        commit, subject, patch = entry.split("\1", 2)
        added = re.findall(r"^\+(?!\+\+ )(.*)$", patch, re.MULTILINE)
        lines = _telling(added)
        if (
            lines
            and _words(subject)
            and "\nrename from " not in patch
            and "\nnew file mode" not in patch
        ):
            yield Change(commit, subject, frozenset(lines))


@dataclass(frozen=True)
class Found:
    """A change, and in each tree its place and the files that are opened to find it."""

    change: Change
    places: Mapping[str, PurePosixPath]
    opened: Mapping[str, int]


def found_in(trees: Mapping[str, Modules], changed: Sequence[Change]) -> list[Found]:
    """Return the changes that have a place in all trees."""
    placed = []
    for change in changed:
        places = {name: tree.place(change) for name, tree in trees.items()}
        known = {name: place for name, place in places.items() if place}
        if len(known) == len(trees):
            placed.append((change, known))
    return [
        Found(
            change,
            places,
            {name: trees[name].opened(change.subject, place) for name, place in places.items()},
        )
        for change, places in placed
    ]


def document(found: Sequence[Found], names: Mapping[str, str], shown: int = _COUNT) -> str:
    """Return the page: means and medians, a line for some commits, and how it is counted.

    Args:
        found: the commits.
        names: of the trees, by title.
        shown: the number of commits that the page lists, spread over all of them.
    """
    counts = {title: [each.opened[name] for each in found] for title, name in names.items()}
    summary = "; ".join(
        f"{title} mean {statistics.fmean(each):.1f}, median {statistics.median(each):g}"
        for title, each in counts.items()
    )
    lines = [
        "# Files that a reader opens to find the place of a change",
        "",
        f"Written by `python -m bench.house.places`. Over all {len(found)} commits: {summary}.",
        "The figures of a few commits depend on which they are; every n-th commit is listed.",
        "",
        "| commit | change | " + " | ".join(f"{title} | place" for title in names) + " |",
        "|---|---|" + "---|---|" * len(names),
    ]
    for each in found[:: max(1, len(found) // shown)][:shown]:
        subject = each.change.subject[:_SHOWN].replace("|", "/")
        cells = (f"{each.opened[name]} | `{_short(each.places[name])}`" for name in names.values())
        lines.append(f"| {each.change.commit} | {subject} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", _HOW, ""])


def _short(path: PurePosixPath) -> str:
    return str(path).removeprefix("cog_adapt/")


def main() -> None:
    """Write the page of places."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--old", default="f7a21a1", help="the tree before; changes end there")
    parser.add_argument("--new", default="HEAD", help="the tree after")
    parser.add_argument("--count", type=int, default=_COUNT, help="of commits")
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    old, new = (_git("rev-parse", "--short", name).strip() for name in (chosen.old, chosen.new))
    trees = {name: read_modules(name) for name in (old, new)}
    found = found_in(trees, [*changes(old)])
    text = document(found, {f"at {old}": old, f"at {new}": new}, chosen.count)
    print(text)
    if chosen.output:
        chosen.output.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
