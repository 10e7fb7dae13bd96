"""A lack of memory is told from other failures, with a remedy."""

import weakref

import pytest
import torch

from cog_adapt.runner.devices import memory
from cog_adapt.runner.devices.memory import explaining_memory, out_of_memory
from cog_adapt.runner.errors import AdaptationError, PredictionError
from gradient_check.phases.memory import is_out_of_memory
from gradient_check.tests.models import Cancelled
from gradient_check.tests.present import present

LACKS = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
]


@pytest.mark.parametrize("error", LACKS, ids=lambda error: type(error).__name__)
def test_a_lack_of_memory_is_called_that(error):
    assert is_out_of_memory(error)
    assert "memory ran out during a step" in str(present(out_of_memory(error, AdaptationError)))


def test_other_failures_are_not():
    for error in (RuntimeError("shapes do not fit"), Cancelled()):
        assert not is_out_of_memory(error)
        assert out_of_memory(error, PredictionError) is None


class Kept:
    """What a local of a failed function kept alive."""


def fail_with(error, kept):
    local = kept.pop()
    raise error
    del local


@pytest.mark.parametrize("kind", [AdaptationError, PredictionError])
def test_memory_is_given_back_before_the_error_is_told(monkeypatch, kind):
    given: list[Kept] = [Kept()]
    kept, freed = weakref.ref(given[0]), []
    monkeypatch.setattr(memory, "free_cache", lambda device: freed.append((device, kept())))
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nadvice")
    with pytest.raises(kind, match=r"memory ran out .*Tried to allocate 2 GiB\.\. \w+") as caught:
        raise_inside(kind, error, given)
    assert "advice" not in str(caught.value)
    assert caught.value.__cause__ is error
    assert freed == [(torch.device("cpu"), None)]


def raise_inside(kind, error, given):
    with explaining_memory(torch.device("cpu"), kind):
        fail_with(error, given)


def test_what_is_no_lack_of_memory_passes_unchanged(monkeypatch):
    monkeypatch.setattr(memory, "free_cache", lambda _: pytest.fail("nothing is to be freed"))
    error = RuntimeError("shapes do not fit")
    with pytest.raises(RuntimeError, match="shapes do not fit") as caught:
        raise_inside(PredictionError, error, [Kept()])
    assert caught.value is error
