"""One run of every test for each flavour: coglet, the mirror with STRICT_COG=1, the mirror.

Servers that hold no state of one test live as long as their flavour is being tested.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cog_adapt.contract.flavours import chosen
from tests.cog_adapt.contract.receivers import Receiver
from tests.cog_adapt.contract.servers import Server
from tests.cog_adapt.contract.serving import FLAVOURS, serving

MOST_SERVERS = 12


@pytest.fixture(scope="session", params=chosen(FLAVOURS))
def flavour(request) -> str:
    """Which server is tested."""
    return request.param


class SharedServers:
    """Servers for many tests: the same arguments give the same server.

    The one that was asked for longest ago ends where there would be too many.
    """

    def __init__(self, flavour: str, make_folder: Callable[[str], Path]) -> None:
        self._flavour, self._make_folder = flavour, make_folder
        self._servers: dict[str, tuple[Server, contextlib.ExitStack]] = {}

    def get(self, predict: str, **options: Any) -> Server:
        """Return the server of these arguments, started if it does not run."""
        key = repr((predict, options))
        found = self._servers.pop(key, None)
        if found is not None and found[0].process.poll() is not None:
            found[1].close()
            found = None
        if found is None:
            self.end_all_but(MOST_SERVERS - 1)
            stack, folder = contextlib.ExitStack(), self._make_folder(self._flavour)
            server = serving(self._flavour, folder, predict=predict, **options)
            found = (stack.enter_context(server), stack)
        self._servers[key] = found
        return found[0]

    def end_all_but(self, most: int) -> None:
        """End those that were asked for longest ago."""
        while len(self._servers) > most:
            self._servers.pop(next(iter(self._servers)))[1].close()


@pytest.fixture(scope="session")
def shared(flavour, tmp_path_factory) -> Iterator[Callable[..., Server]]:
    """Starts a server for many tests."""
    servers = SharedServers(flavour, tmp_path_factory.mktemp)
    yield servers.get
    servers.end_all_but(0)


@pytest.fixture
def launch(flavour, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts a server for one test alone."""
    with contextlib.ExitStack() as stack:

        def start(predict: str | None, **options: Any) -> Server:
            folder = Path(options.pop("folder", tmp_path))
            return stack.enter_context(serving(flavour, folder, predict=predict, **options))

        yield start


@pytest.fixture
def actions(shared) -> Server:
    """A synchronous predictor that does what it is told."""
    return shared("actions.py:Predictor")


@pytest.fixture
def streaming(shared) -> Server:
    """A generator with `@cog.streaming`."""
    return shared("streaming.py:Predictor")


@pytest.fixture
def iterating(shared) -> Server:
    """A generator without it."""
    return shared("iterating.py:Predictor", env={"COG_THROTTLE_RESPONSE_INTERVAL": "0"})


@pytest.fixture
def concurrent(shared) -> Server:
    """An asynchronous predictor with three slots."""
    return shared("asynchronous.py:Predictor", env={"COG_MAX_CONCURRENCY": "3"})


@pytest.fixture
def inputs(shared) -> Server:
    """A predictor with an input of every type."""
    return shared("inputs.py:Predictor")


@pytest.fixture
def trainer(shared) -> Server:
    """A training function in a server that trains."""
    return shared("train_both.py:Predictor", train="train.py:train", flags=("--x-mode", "train"))


@pytest.fixture
def both(shared) -> Server:
    """A predictor with a training function beside it, in a server that predicts."""
    return shared("train_both.py:Predictor", train="train.py:train", flags=("--x-mode", "predict"))


@pytest.fixture(scope="session")
def temporary(flavour, tmp_path_factory) -> Path:
    """The temporary folder of one server."""
    return Path(tmp_path_factory.mktemp("temporary"))


@pytest.fixture
def settled(shared, temporary) -> Server:
    """As `actions`, with variables that name it, its folder and who sends."""
    named = {"MINE": "seen", "COG_USER_AGENT": "mine/1", "WEBHOOK_AUTH_TOKEN": "token"}
    return shared("actions.py:Predictor", env={**named, "TMPDIR": str(temporary)})


@pytest.fixture
def several(shared) -> Server:
    """An asynchronous generator with two slots."""
    return shared("async_streaming.py:Predictor", env={"COG_MAX_CONCURRENCY": "2"})


@pytest.fixture
def starting(shared) -> Server:
    """A server whose setup does not end while it is looked at."""
    return shared("setups.py:Slow", until="STARTING", env={"SETUP_SECONDS": "600"})


@pytest.fixture
def quick(shared) -> Server:
    """A server whose setup ends at once, with an asynchronous healthcheck()."""
    return shared("setups.py:Quick")


@pytest.fixture
def raising(shared) -> Server:
    """A server whose setup has failed."""
    return shared("setups.py:Raises", until="SETUP_FAILED")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A server on loopback that the tested one calls."""
    with Receiver() as receiver:
        yield receiver
