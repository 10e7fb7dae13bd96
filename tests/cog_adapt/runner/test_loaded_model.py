"""A loaded model is healed, frozen and watched; once it has changed it works no more."""

from typing import Any

import pytest
import torch
from torch import nn

from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.errors import (
    ConfigError,
    InputError,
    SetupError,
    UnavailableError,
    WeightsError,
)
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model.loaded_model import LoadedModel
from gradient_check.phases.census import is_healthy
from gradient_check.tests.models import seeded_module
from gradient_check.tests.states import module_state
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import SHAPES, Caching, Images, Letters, examples, inputs, labels


def load(task, **settings):
    return LoadedModel(task, RunnerSettings(device=DEVICE, batch_size=4, **settings))


def drained(ticks):
    while True:
        try:
            next(ticks)
        except StopIteration as stop:
            return stop.value


@pytest.mark.parametrize("shape", SHAPES)
def test_the_base_is_frozen_in_eval_and_healthy(shape):
    base = load(SHAPES[shape]()).base.module
    assert not any(part.training for part in base.modules())
    assert not any(p.requires_grad for p in base.parameters())
    assert all(is_healthy(t) for t in (*base.parameters(), *base.buffers()))


class BornInInference(Images):
    """A loader as some people write it."""

    def load(self):
        with torch.inference_mode():
            return seeded_module(self.module).train()


def test_a_model_loaded_under_inference_mode_is_healed_and_adapts():
    model = load(BornInInference())
    assert "fc.weight" in model.base.healed
    assert "norm.running_mean" in model.base.healed
    adapted = drained(model.adapting(examples("images"), Recipe("all", max_steps=2)))
    plain = load(Images())
    same = drained(plain.adapting(examples("images"), Recipe("all", max_steps=2)))
    assert adapted.adapter.id == same.adapter.id


class Zombie(Images):
    """Cast after a load under inference mode: it denies its birth."""

    def load(self):
        with torch.inference_mode():
            module = seeded_module(self.module)
        return module.double().float()


def test_a_zombie_is_healed_too():
    model = load(Zombie())
    assert "fc.weight" in model.base.healed
    drained(model.adapting(examples("images"), Recipe("all", max_steps=1)))


def test_a_model_may_be_loaded_from_inside_inference_mode():
    with torch.inference_mode():
        model = load(Letters())
    assert model.base.healed == []
    drained(model.adapting(examples("letters"), Recipe(max_steps=1)))


def test_a_lazy_model_is_materialized_in_setup_fit_for_training():
    model = load(SHAPES["lazy"]())
    assert model.base.module.fc.weight.shape == (8, 8)
    assert all(is_healthy(p) for p in model.base.module.parameters())
    drained(model.adapting(examples("lazy"), Recipe("all", max_steps=1)))


def test_a_cache_filled_by_predictions_never_reaches_a_training_forward():
    """Serving first, as production does, leaves inference tensors in the base's caches only."""
    model = load(Caching())
    drained(model.predictions.part(Query(inputs("caching"), None, labels("caching"))).working())
    query = Query(inputs("caching"), None, labels("caching"))
    served = finished(model.predictions.modules.serving(query)).module
    assert served.cache is not None
    assert model.base.template.cache is None
    drained(model.adapting(examples("caching"), Recipe("all", max_steps=2)))


def test_an_adapter_of_another_model_is_refused():
    class Other(Images):
        def load(self):
            return seeded_module(self.module, seed=1)

    adapter = drained(load(Other()).adapting(examples("images"), Recipe(max_steps=1))).adapter
    model = load(Images())
    with pytest.raises(WeightsError, match="was made on base"):
        drained(model.predictions.part(Query(inputs("images"), adapter, ())).working())
    with pytest.raises(WeightsError, match="was made on base"):
        drained(model.adapting(examples("images"), Recipe(), begin=adapter))


DAMAGES = {
    "a write through .data": lambda m: m.fc.weight.data.mul_(2),
    "a write through NumPy": lambda m: m.fc.weight.detach().numpy().__setitem__((0, 0), 7.0),
    "a buffer": lambda m: m.norm.running_mean.add_(1),
    "a flag": lambda m: m.fc.weight.requires_grad_(True),
    "training mode": lambda m: m.drop.train(),
    "a hook": lambda m: m.fc.register_forward_hook(lambda *_: None),
    "a gradient": lambda m: setattr(m.fc.weight, "grad", torch.ones_like(m.fc.weight)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_once_the_base_has_changed_no_more_work_is_done(damage):
    if "NumPy" in damage and DEVICE != "cpu":
        pytest.skip("NumPy cannot write to a device")
    model = load(Images())
    model.task.fault = lambda losses: (DAMAGES[damage](model.base.module), losses)[1]
    with pytest.raises(UnavailableError, match=r"the base model changed: .*restart it"):
        drained(model.adapting(examples("images"), Recipe(max_steps=1)))
    model.task.fault = None
    assert model.damage
    with pytest.raises(UnavailableError, match="the base model changed"):
        drained(model.predictions.part(Query(inputs("images"), None, labels("images"))).working())
    with pytest.raises(UnavailableError, match="the base model changed"):
        drained(model.adapting(examples("images"), Recipe(max_steps=1)))


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1)])
def test_a_change_is_found_after_a_failure_too(error):
    model = load(Images())

    def fault(losses):
        model.base.module.fc.weight.data.mul_(2)
        raise error

    model.task.fault = fault
    with pytest.raises(UnavailableError, match="the base model changed"):
        drained(model.adapting(examples("images"), Recipe(max_steps=1)))


def test_a_change_is_found_when_the_work_is_dropped():
    model = load(Images())
    ticks = model.adapting(examples("images"), Recipe(max_steps=9))
    next(ticks)
    model.base.module.fc.weight.data.mul_(2)
    with pytest.raises(UnavailableError):
        ticks.close()
    assert model.damage


class Closure(Images):
    """Its loss reaches past the replica to the base: a closure over the original."""

    def load(self):
        self.original = super().load()
        return self.original

    def loss(self, module, batch, targets):
        return super().loss(self.original, batch, targets)


def test_a_closure_over_the_base_fails_and_does_not_train_it():
    model = load(Closure())
    before = module_state(model.base.module)
    with pytest.raises(RuntimeError, match="no graph"):
        drained(model.adapting(examples("images"), Recipe("all", max_steps=1)))
    assert module_state(model.base.module) == before


class Half(Letters):
    def load(self):
        return super().load().to(torch.float16)


def test_a_base_of_16_bit_weights_computes_in_their_dtype_unless_told_otherwise():
    assert load(Half()).base.precision.compute is torch.float16
    with pytest.raises(ConfigError, match=r"PRECISION is 'fp32', but the model's weights are fp16"):
        load(Half(), precision="fp32")
    assert load(Half(), precision="bf16").base.precision.compute is torch.bfloat16


def test_a_module_that_cannot_be_copied_is_refused_in_setup():
    class Locked(Images):
        def load(self):
            module: Any = super().load()
            module.session = (n for n in [1])
            return module

    with pytest.raises(SetupError, match="cannot be copied"):
        load(Locked())


def test_a_loader_that_fails_says_so_itself():
    class Broken(Images):
        def load(self):
            raise FileNotFoundError("weights.bin")

    with pytest.raises(FileNotFoundError, match=r"weights\.bin"):
        load(Broken())


def test_the_digest_is_of_the_weights():
    class Other(Images):
        def load(self):
            return seeded_module(self.module, seed=1)

    assert load(Images()).base.digest == load(Images()).base.digest != load(Other()).base.digest


def test_a_module_without_parameters_can_be_loaded_and_answers():
    class Identity(Images):
        def module(self):
            return nn.Identity()

        def predict(self, module, batch, labels, options):
            return batch["x"].tolist()

        def start(self, module, labels, examples):
            return {}

    model = load(Identity())
    assert len(drained(model.predictions.part(Query(inputs("images"), None, ())).working())) == 3
    with pytest.raises(InputError, match="finds nothing to train"):
        drained(model.adapting(examples("images"), Recipe()))
