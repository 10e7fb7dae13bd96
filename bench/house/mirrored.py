"""Which modules have a test file of their own path."""

from collections.abc import Sequence

from bench.house.trees import Module


def without_test(sources: Sequence[Module], tests: Sequence[Module]) -> list[str]:
    """The modules that have none; a package's `__init__` needs none."""
    known = {str(test.path) for test in tests}
    return [
        str(source.path)
        for source in sources
        if source.path.name != "__init__.py" and not known & set(_expected(source))
    ]


def _expected(source: Module) -> list[str]:
    """`test_main.py` will do for `__main__.py`."""
    names = {source.path.stem, source.path.stem.strip("_")}
    return [str("tests" / source.path.with_name(f"test_{name}.py")) for name in names]
