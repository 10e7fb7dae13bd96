"""A model is loaded on its thread, which ends where that fails."""

import threading

import pytest
import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import SetupError, UnavailableError
from cog_adapt.runner.loading import load
from cog_adapt.runner.scheduling.scheduler import Scheduler, once
from cog_adapt.runner.storage.store import store_of
from tests.cog_adapt.models import Letters


@pytest.fixture
def settings(tmp_path):
    return RunnerSettings(device="cpu", weights_dir=tmp_path)


def test_the_thread_that_loads_explains_what_fails_afterwards(settings, monkeypatch):
    scheduler = Scheduler()
    model = load(Letters(), settings, scheduler, store_of(settings))
    monkeypatch.setattr(
        "cog_adapt.runner.modules.loaded_base.failure_of", lambda _: "CUDA error: gone"
    )
    with pytest.raises(UnavailableError, match="the device cpu failed: CUDA error: gone") as caught:
        scheduler.submit_short(once(fail)).wait()
    assert isinstance(caught.value.__cause__, torch.AcceleratorError)
    assert model.damage
    scheduler.close()


def fail():
    raise torch.AcceleratorError("CUDA error: gone")


class Nothing(Letters):
    def load(self):
        raise SetupError("no weights")


def test_a_model_that_cannot_be_loaded_leaves_no_thread(settings):
    scheduler = Scheduler("of no model")
    with pytest.raises(SetupError, match="no weights"):
        load(Nothing(), settings, scheduler, store_of(settings))
    assert "of no model" not in {thread.name for thread in threading.enumerate()}


def test_what_the_threads_that_wait_do_is_watched_from_the_start(settings, monkeypatch):
    watched: list[int] = []
    monkeypatch.setattr("cog_adapt.runner.loading.share_cores", lambda: 7)
    monkeypatch.setattr("cog_adapt.runner.loading.watch_cores", watched.append)
    scheduler = Scheduler()
    load(Letters(), settings, scheduler, store_of(settings))
    scheduler.close()
    assert watched == [7]
