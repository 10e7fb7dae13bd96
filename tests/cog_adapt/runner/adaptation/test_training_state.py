"""The state of an unfinished run survives a kill, whole."""

import os
from typing import Any

import pytest
import torch

from cog_adapt.runner.adaptation.run import adapt
from cog_adapt.runner.adaptation.start import Checkpoints
from cog_adapt.runner.adaptation.training_state import (
    TrainingState,
    copied_optimizer,
    load_state,
    restore_optimizer,
    save_state,
)
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.errors import StoreError, WeightsError
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model.loaded_model import LoadedModel
from gradient_check.phases.gradient_step import GradientStep
from gradient_check.phases.precision import Precision
from gradient_check.tests.present import NOT_USED, present
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import SHAPES, examples


def states_of(shape="caching", precision="fp32", **changes):
    model = LoadedModel(SHAPES[shape](), RunnerSettings(device=DEVICE, precision=precision))
    states: list[Any] = []
    keeping = Checkpoints(load=lambda: None, save=states.append, every=2)
    recipe = Recipe("all", max_steps=4, batch_size=5, hold_out=0.3, learning_rate=0.02, **changes)
    for _ in adapt(finished(model.starting(examples(shape, 18), recipe, None, keeping))):
        pass
    return states


def same(one, other):
    return set(one) == set(other) and all(torch.equal(one[n], other[n].cpu()) for n in one)


@pytest.mark.parametrize(("shape", "precision"), [("caching", "fp32"), ("spectral", "fp16")])
def test_a_state_comes_back_from_its_file_bit_for_bit(tmp_path, shape, precision):
    path = tmp_path / "deep" / "state.safetensors"
    for state in states_of(shape, precision):
        save_state(state, path)
        again = load_state(path)
        assert same(present(again).tensors, state.tensors)
        assert same(present(again).optimizer, state.optimizer)
        assert same(present(again).best[2], state.best[2])
        assert present(again).best[:2] == state.best[:2]
        assert (present(again).steps, present(again).scores) == (state.steps, state.scores)
        assert present(again).seconds == state.seconds


def test_the_optimizers_moments_and_the_float16_scale_are_kept():
    keys = set(states_of(precision="fp16")[0].optimizer)
    assert {"0/step", "0/exp_avg", "0/exp_avg_sq", "scale"} <= keys


def test_a_state_is_a_copy_that_later_steps_do_not_change():
    early, late = states_of()
    assert not same(early.tensors, late.tensors)
    assert not same(early.optimizer, late.optimizer)


def test_before_any_scoring_there_is_no_best(tmp_path):
    average = {"a": torch.zeros(1)}
    state = TrainingState({"a": torch.ones(1)}, {}, (0, float("inf"), {}), (), (), 1.5, average)
    save_state(state, tmp_path / "s.safetensors")
    again = present(load_state(tmp_path / "s.safetensors"))
    assert again.best == (0, float("inf"), {})
    assert same(again.average, average)


def test_no_file_is_no_state(tmp_path):
    assert load_state(tmp_path / "none.safetensors") is None


@pytest.mark.parametrize("content", [b"", b"text", b"\x80\x04K\x01.", b"\x08" + b"\0" * 7 + b"{}"])
def test_a_file_that_holds_no_state_is_refused_with_the_remedy(tmp_path, content):
    path = tmp_path / "state.safetensors"
    path.write_bytes(content)
    with pytest.raises(WeightsError, match=r"holds no training state: .*Remove it to begin again"):
        load_state(path)


def test_a_cut_state_is_refused(tmp_path):
    path = tmp_path / "state.safetensors"
    save_state(states_of()[0], path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(WeightsError, match="holds no training state"):
        load_state(path)


def test_a_failed_write_leaves_the_earlier_state(tmp_path, monkeypatch):
    path = tmp_path / "state.safetensors"
    early, late = states_of()
    save_state(early, path)

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="No space left"):
            save_state(late, path)
    assert same(present(load_state(path)).tensors, early.tensors)
    assert len(list(tmp_path.iterdir())) == 1


def test_the_float16_scale_goes_on_where_it_was():
    module = torch.nn.Linear(2, 1)
    precision = Precision(torch.device("cpu"), torch.float16)

    def step():
        return GradientStep(module, NOT_USED, torch.optim.AdamW, precision, frozenset())

    first, again = step(), step()
    first.scaler.load_state_dict(
        first.scaler.state_dict() | {"scale": 2.0**11, "_growth_tracker": 7}
    )
    kept = TrainingState({}, finished(copied_optimizer(first)), (0, 0.0, {}), (), (), 0.0)
    assert again.scaler.get_scale() != 2.0**11
    restore_optimizer(again, kept)
    assert again.scaler.get_scale() == 2.0**11
    assert again.scaler.state_dict()["_growth_tracker"] == 7


def test_a_restored_optimizer_goes_on_with_its_moments():
    """The same gradient moves weights as it would have without the stop."""

    def step():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            replica = torch.nn.Linear(2, 2)
        loss = lambda module, x: module(x).pow(2)  # noqa: E731
        return GradientStep(
            replica, loss, torch.optim.AdamW, Precision(torch.device("cpu")), frozenset()
        )

    def later(taker):
        taker(torch.ones(3, 2), seed=0)
        return [p.detach().clone() for p in taker.replica.parameters()]

    first, again, fresh = step(), step(), step()
    first(torch.ones(3, 2), seed=0)
    kept = TrainingState({}, finished(copied_optimizer(first)), (0, 0.0, {}), (), (), 0.0)
    for taker in (again, fresh):
        taker.replica.load_state_dict(first.replica.state_dict())
    restore_optimizer(again, kept)
    assert same(finished(copied_optimizer(again)), finished(copied_optimizer(first)))
    expected = later(first)
    assert all(map(torch.equal, later(again), expected))
    assert not all(map(torch.equal, later(fresh), expected))


def test_the_moments_of_many_parameters_are_copied_some_a_tick():
    replica = torch.nn.Sequential(*(torch.nn.Linear(1_000, 1_000) for _ in range(12)))
    loss = lambda module, x: module(x).pow(2)  # noqa: E731
    precision = Precision(torch.device("cpu"))
    step = GradientStep(replica, loss, torch.optim.AdamW, precision, frozenset())
    step(torch.ones(1, 1_000), seed=0)
    ticks = list(copied_optimizer(step))
    assert len(ticks) >= 2  # 96 MB of moments
