"""For pytest: `-p tests.standin.plugin` runs the tests on the stand-in."""

import pytest

from tests.standin.errors import StandInError
from tests.standin.load import load

try:
    load()  # pytest imports this before any test, and so before torch
    _REASON = ""
except StandInError as error:
    _REASON = str(error)


def pytest_configure(config: pytest.Config) -> None:
    """End at once, and well, where there is no stand-in: nothing was found wrong."""
    if _REASON:
        pytest.exit(f"skipped, for there is no stand-in: {_REASON}", returncode=0)


def pytest_report_header(config: pytest.Config) -> str:
    return "device: stand-in, which is no card; see tests/standin/README.md"
