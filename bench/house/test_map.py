"""What became of each test: old ids, new ids, and the lines that lead from one to the other."""

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
        removed: prefixes of tests that are gone with a reason.
    """

    __test__ = False  # pytest collects what is called Test

    moved: dict[str, str]
    removed: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> "TestMap":
        """Read the lines; `#` begins a comment.

        Raises:
            ValueError: a line is none of these.
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
        """Of a file; without one every test stays where it is."""
        return cls.of(path.read_text("utf-8") if path.exists() else "")

    def find(self, old: str) -> str | None:
        """The new id of an old one; None: removed. The longest prefix that fits decides."""
        fits = [each for each in (*self.moved, *self.removed) if old.startswith(each)]
        prefix = max(fits, key=len, default="")
        if prefix in self.removed:
            return None
        return self.moved.get(prefix, "") + old.removeprefix(prefix)


def differences(old: Iterable[str], new: Iterable[str], mapping: TestMap) -> list[str]:
    """Old ids that lead to no test, and new ones that nothing leads to."""
    there = set(new)
    found = {each: mapping.find(each) for each in old}
    lost = [f"- {each} (looked for {at})" for each, at in found.items() if at and at not in there]
    reached = set(found.values())
    return [*lost, *(f"+ {each}" for each in sorted(there) if each not in reached)]
