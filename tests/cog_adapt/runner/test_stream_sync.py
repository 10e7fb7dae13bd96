"""A streamed answer on a thread without an event loop."""

import pytest

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests.stream_sync import stream_sync
from tests.cog_adapt.growing import Length, Spelling
from tests.cog_adapt.waiting import wait_until


@pytest.fixture
def runner(tmp_path):
    with ModelRunner(Spelling(), RunnerSettings(device="cpu", weights_dir=tmp_path)) as made:
        yield made


def test_it_yields_the_pieces_of_the_answer(runner):
    told = [*stream_sync(runner, Request(["ab"]))]
    assert "".join(told) == runner.predict(["ab"])[0]
    assert len(told) == 6


def test_what_fails_is_raised(runner):
    with pytest.raises(InputError, match="the word is empty"):
        next(stream_sync(runner, Request([""])))


def test_who_stops_reading_cancels_what_is_left(runner):
    pieces = stream_sync(runner, Request(["ab"], options=Length(100_000)))
    next(pieces)
    pieces.close()
    (begun,) = runner.task.begun
    wait_until(lambda: begun.closed)
    assert len(begun.made) < 100_000
