"""The code that a task depends on: its owner's files, and the libraries that they use."""

import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import gradient_check
from gradient_check.phases.libraries import is_library_file

_OWN = (Path(__file__).parents[1], Path(gradient_check.__file__).parent)
_STANDARD = Path(inspect.getfile(inspect)).parent


def code_behind(kinds: Iterable[type]) -> tuple[set[Path], set[str]]:
    """Return the user's files that define or serve these classes, and the libraries."""
    waiting = [base.__module__ for kind in kinds for base in kind.__mro__]
    seen, own, libraries = set[str](), set[Path](), set[str]()
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        if name in seen or module is None:
            continue
        seen.add(name)
        file = Path(getattr(module, "__file__", None) or "")
        if is_library_file(str(file)):
            libraries.add(name.partition(".")[0])
        elif file.is_file() and not _is_known(file):
            own.add(file)
            waiting += _used_by(module)
    return own, libraries


def _is_known(file: Path) -> bool:
    """Return whether a file belongs to this package or to Python: those count as a whole."""
    return any(file.is_relative_to(folder) for folder in (*_OWN, _STANDARD))


def _used_by(module: ModuleType) -> Iterator[str]:
    """Yield the names of the modules from which a module holds values."""
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType):
            yield value.__name__
        elif isinstance(found := getattr(value, "__module__", None), str):
            yield found
