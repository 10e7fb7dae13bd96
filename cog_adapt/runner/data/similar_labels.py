"""Labels that may be one label written in two ways: another case, or one wrong character.

Without a warning a misspelled label becomes a class of its own, with one example.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from cog_adapt.runner.data.row import brief

_MOST_LABELS = 100  # more targets than this are texts to produce, or too many to compare
_LONGEST = 200  # characters: longer targets are texts to produce too, and take long to compare
_SHORTEST = 4  # characters: shorter names of one wrong character are too often meant
_RARE = 4  # a misspelling has at most so many times fewer examples than the right name


def similar_labels(targets: Sequence[object]) -> list[str]:
    """Return a sentence for each pair of labels of which one may be a misspelling of the other.

    Args:
        targets: the target of each example; targets that are no texts have no misspelling.
    """
    counts = Counter(target for target in targets if isinstance(target, str))
    if not 1 < len(counts) <= _MOST_LABELS or max(map(len, counts)) > _LONGEST:
        return []
    return [
        f"{brief(rare)} ({counts[rare]}) may be meant as {brief(common)} ({counts[common]})"
        for rare, common in _pairs(counts)
    ]


def _pairs(counts: Counter[str]) -> Iterator[tuple[str, str]]:
    """Yield the rarer and the more common name of each similar pair."""
    plain = {label: _plain(label) for label in counts}
    by_count = sorted(counts, key=lambda label: -counts[label])
    for common, rare in combinations(by_count, 2):
        is_rare = counts[rare] * _RARE <= counts[common]
        if plain[common] == plain[rare] or (is_rare and _is_one_edit(common, rare)):
            yield rare, common


def _plain(label: str) -> str:
    """Return a label without case, spaces, hyphens and underscores."""
    return "".join(each for each in label.casefold() if each not in " -_")


def _is_one_edit(first: str, second: str) -> bool:
    """Return whether one character was added, left out, replaced or swapped; digits are meant."""
    if min(len(first), len(second)) < _SHORTEST or abs(len(first) - len(second)) > 1:
        return False
    start = next((n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    if start is None:
        return not max(first, second, key=len)[-1].isdigit()
    a, b = first[start:], second[start:]
    if a[0].isdigit() or b[0].isdigit():
        return False
    is_swapped = len(a) > 1 and len(b) > 1 and a[:2] == b[1::-1] and a[2:] == b[2:]
    return is_swapped or a[1:] == b or a == b[1:] or a[1:] == b[1:]
