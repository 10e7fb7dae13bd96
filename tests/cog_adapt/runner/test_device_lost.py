"""A device that fails for good is told with its first error, and no more work is done."""

import pytest
import torch

from cog_adapt.runner.config import Recipe
from cog_adapt.runner.errors import AdaptationError, UnavailableError
from cog_adapt.runner.modules.loaded_base import LoadedBase
from tests.cog_adapt.devices import PLACE
from tests.cog_adapt.models import Images, examples, inputs, labels

ASSERT = "CUDA error: device-side assert triggered\nCompile with `TORCH_USE_CUDA_DSA`"
LATER = "CUDA error: unspecified launch failure"
FAILED = f"the device {PLACE} failed: CUDA error: device-side assert triggered"
TOLD = rf"{FAILED}\. .*restart it.*BLOCKING=1"


class Device:
    """A device that can be made to fail."""

    failure = ""

    def lose(self, *_):
        """Fail with an assert, and in all that is asked later with another error."""
        error = torch.AcceleratorError(LATER if self.failure else ASSERT)
        self.failure = self.failure or ASSERT.partition("\n")[0]
        raise error


@pytest.fixture
def device(monkeypatch):
    device = Device()
    monkeypatch.setattr("cog_adapt.runner.modules.loaded_base.failure_of", lambda _: device.failure)
    return device


def refused(runner, caught):
    """Nothing is done any more, and the process says why it must end."""
    assert runner.health() == (FAILED,)
    assert runner.fatal_error() == FAILED
    cause = caught.value.__cause__
    assert isinstance(cause, torch.AcceleratorError)
    assert str(cause) == ASSERT  # the first of its errors
    for work in (
        lambda: runner.predict(inputs("images"), None, labels("images")),
        lambda: runner.adapt(examples("images"), Recipe(max_steps=1)),
    ):
        with pytest.raises(UnavailableError, match=TOLD) as again:
            work()
        assert again.value.__cause__ is None


def test_in_an_adaptation_the_census_does_not_hide_the_error(make_runner, device, monkeypatch):
    runner = make_runner(Images())
    assert (runner.health(), runner.fatal_error()) == ((), None)
    monkeypatch.setattr(LoadedBase, "check", device.lose)  # every call fails from then on
    runner.model.task.fault = device.lose
    with pytest.raises(UnavailableError, match=TOLD) as caught:
        runner.adapt(examples("images"), Recipe(max_steps=1))
    refused(runner, caught)


def test_in_a_prediction_it_is_noticed_too(make_runner, device, monkeypatch):
    runner = make_runner(Images())
    monkeypatch.setattr(Images, "predict", device.lose)
    with pytest.raises(UnavailableError, match=TOLD) as caught:
        runner.predict(inputs("images"), None, labels("images"))
    refused(runner, caught)


def test_an_error_that_a_census_meets_first_is_told_as_well(make_runner, device, monkeypatch):
    """Kernels run later than they are called: a step may end well that has broken the device."""
    runner = make_runner(Images())
    monkeypatch.setattr(LoadedBase, "check", device.lose)
    with pytest.raises(UnavailableError, match=TOLD) as caught:
        runner.adapt(examples("images"), Recipe(max_steps=1))
    refused(runner, caught)


def test_an_error_after_which_the_device_answers_is_no_end(make_runner, device):
    runner = make_runner(Images())

    def fail(_):
        raise torch.AcceleratorError("CUDA error: invalid configuration argument")

    runner.model.task.fault = fail
    with pytest.raises(torch.AcceleratorError, match="invalid configuration"):
        runner.adapt(examples("images"), Recipe(max_steps=1))
    runner.model.task.fault = None
    assert (runner.health(), runner.fatal_error()) == ((), None)
    assert runner.adapt(examples("images"), Recipe(max_steps=1)).report.steps


def test_a_lack_of_memory_is_no_end(make_runner, device):
    runner = make_runner(Images())

    def fail(_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    runner.model.task.fault = fail
    with pytest.raises(AdaptationError, match="memory ran out during a step"):
        runner.adapt(examples("images"), Recipe(max_steps=1))
    assert (runner.health(), runner.fatal_error()) == ((), None)
