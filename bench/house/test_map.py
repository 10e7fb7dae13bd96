"""Maps old ids of tests to new ones, by lines in a file."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_ARROW = " => "
_REMOVED = "removed, because "


@dataclass(frozen=True)
class TestMap:
    """Lines `old prefix => new prefix` and `old prefix => removed, because …`.

    Attributes:
        moved: new prefix by old prefix.
        removed: prefixes of tests that were removed for a given reason.
    """

    __test__ = False  # pytest collects what is called Test

    moved: dict[str, str]
    removed: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> "TestMap":
        """Parse the lines; `#` begins a comment.

        Raises:
            ValueError: a line has neither form.
        """
        moved: dict[str, str] = {}
        removed: list[str] = []
        for line in text.splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            old, arrow, new = line.strip().partition(_ARROW)
            if not arrow or not new:
                raise ValueError(f"{line!r}: write 'OLD{_ARROW}NEW' or 'OLD{_ARROW}{_REMOVED}…'")
            if new.startswith(_REMOVED):
                removed.append(old)
            else:
                moved[old] = new
        return cls(moved, tuple(removed))

    @classmethod
    def read(cls, path: Path) -> "TestMap":
        """Read a file; without one, every test keeps its id."""
        return cls.of(path.read_text("utf-8") if path.exists() else "")

    def find(self, old: str) -> str | None:
        """Return the new id of an old one by its longest prefix, or None if it was removed."""
        fits = [each for each in (*self.moved, *self.removed) if old.startswith(each)]
        prefix = max(fits, key=len, default="")
        if prefix in self.removed:
            return None
        return self.moved.get(prefix, "") + old.removeprefix(prefix)


def differences(old: Iterable[str], new: Iterable[str], mapping: TestMap) -> list[str]:
    """Return old ids that lead to no test, and new ones that nothing leads to."""
    there = set(new)
    found = {each: mapping.find(each) for each in old}
    lost = [f"- {each} (looked for {at})" for each, at in found.items() if at and at not in there]
    reached = set(found.values())
    return [*lost, *(f"+ {each}" for each in sorted(there) if each not in reached)]
