"""Reads a tree of sources from disk, in the layout of today or before the move into one package."""

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

PACKAGE = "cog_adapt"
_IGNORED = {".venv", ".git", ".data", "__pycache__", "build", "dist"}
_DOORS = ("predict.py", "train.py", "task.py", "encoder.py")
KERNEL = "gradient_check"
SOURCES = ("server", "command", "runner", "package", "template", KERNEL)
AREAS = (*SOURCES, "tests", "bench", "examples")


@dataclass(frozen=True)
class Module:
    """One file.

    Attributes:
        path: path below the tree's root.
        area: one of AREAS.
        text: its source.
    """

    path: PurePosixPath
    area: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @property
    def name(self) -> str:
        """The name under which it is imported."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def lines(self) -> int:
        """The number of lines."""
        return self.text.count("\n")


@dataclass(frozen=True)
class Tree:
    """All files of a tree."""

    root: Path
    modules: tuple[Module, ...]

    @classmethod
    def read(cls, root: Path) -> "Tree":
        """Read every Python file that belongs to an area."""
        paths = sorted(path.relative_to(root) for path in root.rglob("*.py"))
        known = [PurePosixPath(path) for path in paths if not _IGNORED & set(path.parts)]
        is_package = (root / PACKAGE).is_dir()
        areas = {path: area for path in known if (area := area_of(path, is_package=is_package))}
        modules = (Module(p, area, (root / p).read_text("utf-8")) for p, area in areas.items())
        return cls(root, tuple(modules))

    @property
    def server(self) -> PurePosixPath:
        """The folder of Cog's HTTP API."""
        below = PurePosixPath(PACKAGE) if (self.root / PACKAGE).is_dir() else PurePosixPath()
        return below / "server"

    def of(self, *areas: str) -> list[Module]:
        """Return the modules of some areas."""
        return [module for module in self.modules if module.area in areas]


def area_of(path: PurePosixPath, *, is_package: bool) -> str | None:
    """Return the area of a file, or None; commands have an area of their own in either layout."""
    parts = path.parts
    if is_package and parts[0] == PACKAGE:
        if parts[1:3] == ("server", "command"):
            return "command"
        return parts[1] if parts[1] in AREAS[:3] else "package"
    if parts[0] == KERNEL:
        return {"exam": "bench", "tests": "tests"}.get(parts[1], KERNEL)
    if parts[0] in ("tests", "bench", "examples"):
        return parts[0]
    if parts[0] in _DOORS or (is_package and parts[0] == "server"):
        return "template"
    if parts[:2] == ("server", "command"):
        return "command"
    return parts[0] if parts[0] in ("server", "runner") else None
