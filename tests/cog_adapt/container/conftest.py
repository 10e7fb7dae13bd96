"""The engine and the image, made once."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cog_adapt.container.base_image import ROOT, import_base, wheel_index
from tests.cog_adapt.container.engine import Engine, MissingError, running_engine

IMAGE = "cog-adapt-test"
PYTORCH_INDEX = "https://download.pytorch.org/whl/cpu"


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """Where everything lies; not in /tmp, which may be a tmpfs and too small."""
    path = Path(tempfile.mkdtemp(prefix="container-", dir="/var/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def engine(folder) -> Iterator[Engine]:
    """A running engine."""
    if not os.environ.get("CONTAINER"):
        pytest.skip("builds and runs the image, which takes minutes: `make container` does it")
    with ExitStack() as stack:
        try:
            engine = stack.enter_context(running_engine(folder))
            if engine.is_own:
                import_base(engine, folder)
        except MissingError as error:
            pytest.skip(str(error))
        yield engine


@pytest.fixture(scope="session")
def index(engine, folder) -> Iterator[str]:
    """Where the build finds PyTorch for CPUs."""
    if not engine.is_own:
        yield PYTORCH_INDEX
        return
    with wheel_index(folder / "index") as address:
        yield address


@pytest.fixture(scope="session")
def build(engine, index):
    """Builds the repository with a Dockerfile's text, under a name."""

    def build(name: str, dockerfile: str, context: Path = ROOT) -> str:
        options = ("--network", "host", "--build-arg", f"PIP_EXTRA_INDEX_URL={index}")
        tags = ("--tag", name, "--file", "-", str(context))
        engine.docker("build", *options, *tags, input=dockerfile)
        return name

    return build


@pytest.fixture(scope="session")
def image(build) -> str:
    """The mirror's image, built from the Dockerfile as it is."""
    return build(IMAGE, (ROOT / "Dockerfile").read_text())
