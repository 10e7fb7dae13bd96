"""A house and a receiver of webhooks for each test."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cog_adapt.contract.receivers import Receiver
from tests.cog_adapt.faults.cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A folder with a database, without servers yet."""
    with contextlib.ExitStack() as stack:
        yield Cluster(tmp_path, stack)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A server on loopback that webhooks reach."""
    with Receiver() as receiver:
        yield receiver
