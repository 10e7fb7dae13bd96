"""The second exam: cases of two examiners, from the documentation alone, half of them sealed.

The sealed half lies in archives beside the digests that were committed with them. The sealed half
is asked once, after the mends that the open half led to
(`python -m gradient_check.exam --set sealed`), and that figure stands; before that, developers of
the check do not read the sealed cases.
"""

import atexit
import contextlib
import hashlib
import importlib
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from gradient_check.exam import case, second, second_b
from gradient_check.exam.case import Question
from gradient_check.exam.second import parts

_PACKAGES = ((second, "sealed_a"), (second_b, "sealed_b"))
# The sealed cases import the exam by the names that it had when they were sealed. A changed archive
# would have another digest than the committed one, so the names are lent and the archives stay.
_SEALED_NAMES = {"bench.exam.case": case, "bench.exam.second.parts": parts}


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
        # Python reads the sources until the last case
        folder = Path(tempfile.mkdtemp(prefix="sealed-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        with zipfile.ZipFile(archive) as file:
            file.extractall(folder)
        package.__path__.append(str(folder))
        with _names_of_the_sealing():
            found += _questions(package, folder, "sealed_*.py")
    return found


@contextlib.contextmanager
def _names_of_the_sealing() -> Iterator[None]:
    """Let the exam be imported by the names that it had when the archives were sealed."""
    sys.modules.update(_SEALED_NAMES)
    try:
        yield
    finally:
        for name in _SEALED_NAMES:
            del sys.modules[name]


def _folder(package: ModuleType) -> Path:
    return Path(str(package.__file__)).parent


def _questions(package: ModuleType, folder: Path, pattern: str = "open_*.py") -> list[Question]:
    names = sorted(path.stem for path in folder.rglob(pattern))
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return [question for module in modules for question in module.questions]
