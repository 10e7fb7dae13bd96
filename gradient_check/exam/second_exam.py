"""The second exam: cases of two examiners, from the documentation alone, half of them sealed.

The sealed half lies in archives beside the digests that were committed with them. It is asked once,
after the mends that the open half led to (`python -m bench.exam --set sealed`), and that figure
stands; its cases are read by nobody who works on the check before that.
"""

import hashlib
import importlib
import tempfile
import zipfile
from pathlib import Path
from types import ModuleType

from bench.exam import second, second_b
from bench.exam.case import Question

_PACKAGES = ((second, "sealed_a"), (second_b, "sealed_b"))


def open_questions() -> list[Question]:
    """Return the questions of the open half."""
    return [each for package, _ in _PACKAGES for each in _questions(package, _folder(package))]


def sealed_questions() -> list[Question]:
    """Return the questions of the sealed half, unpacked into a folder that stays until the end.

    Raises:
        ValueError: an archive is not the one whose digest was committed.
    """
    found: list[Question] = []
    for package, name in _PACKAGES:
        archive = _folder(package) / f"{name}.zip"
        digest = (_folder(package) / f"{name}.sha256").read_text().split()[0]
        if hashlib.sha256(archive.read_bytes()).hexdigest() != digest:
            raise ValueError(f"{archive.name} is not the archive of the committed digest")
        folder = Path(tempfile.mkdtemp(prefix="sealed-"))  # sources are read until the last case
        with zipfile.ZipFile(archive) as file:
            file.extractall(folder)
        package.__path__.append(str(folder))
        found += _questions(package, folder, "sealed_*.py")
    return found


def _folder(package: ModuleType) -> Path:
    return Path(str(package.__file__)).parent


def _questions(package: ModuleType, folder: Path, pattern: str = "open_*.py") -> list[Question]:
    names = sorted(path.stem for path in folder.rglob(pattern))
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return [question for module in modules for question in module.questions]
