"""Finds the modules without a test file of their own path."""

from collections.abc import Sequence

from bench.house.trees import Module


def without_test(sources: Sequence[Module], tests: Sequence[Module]) -> list[str]:
    """Return the modules without one; a package's `__init__` needs none."""
    known = {str(test.path) for test in tests}
    return [
        str(source.path)
        for source in sources
        if source.path.name != "__init__.py" and not known & set(_expected(source))
    ]


def _expected(source: Module) -> list[str]:
    """Return the accepted names; `test_main.py` will do for `__main__.py`."""
    names = {source.path.stem, source.path.stem.strip("_")}
    return [str("tests" / source.path.with_name(f"test_{name}.py")) for name in names]
