"""A house and a receiver of webhooks for each test."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cog_adapt.contract.receivers import Receiver
from tests.cog_adapt.faults.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A folder with a database, without servers yet."""
    with contextlib.ExitStack() as stack:
        yield House(tmp_path, stack)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A server on loopback that webhooks reach."""
    with Receiver() as receiver:
        yield receiver
