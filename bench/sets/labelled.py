"""Texts by label."""

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

Texts = Mapping[str, list[str]]
"""The texts of each label."""


@dataclass(frozen=True)
class LabelledSet:
    """Texts by label, in a fixed order.

    Attributes:
        name: the name of the set.
        texts: of each label; no text occurs twice.
        test_per_label: how many texts of each label a split tests with.
    """

    name: str
    texts: Texts
    test_per_label: int

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels."""
        return tuple(self.texts)

    @functools.cached_property
    def digest(self) -> str:
        """The SHA-256 of labels and texts, in order."""
        lines = (f"{label}\t{text}" for label, texts in self.texts.items() for text in texts)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()
