"""A base is watched by its census: once it differs, nothing is answered any more."""

import pytest
import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import UnavailableError
from cog_adapt.runner.modules.loaded_base import LoadedBase, moved
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import Images, Letters


def test_an_unchanged_base_passes_and_a_changed_one_is_refused_for_ever():
    base = LoadedBase(Images(), RunnerSettings(device=DEVICE))
    weight = base.module.get_parameter("fc.weight")
    base.check()
    base.refuse_when_damaged()
    kept = weight.data.clone()
    weight.data.mul_(2)
    with pytest.raises(UnavailableError, match=r"the base model changed: .*restart it"):
        base.check()
    weight.data.copy_(kept)
    with pytest.raises(UnavailableError, match="the base model changed"):
        base.refuse_when_damaged()


def test_the_template_shares_the_weights_and_is_another_module():
    base = LoadedBase(Letters(), RunnerSettings(device=DEVICE))
    own, copied = (dict(m.named_parameters()) for m in (base.module, base.template))
    assert base.template is not base.module
    assert all(own[name].data_ptr() == copied[name].data_ptr() for name in own)


def test_named_tensors_are_moved_by_name():
    tensors = dict(LoadedBase(Letters(), RunnerSettings(device=DEVICE)).module.named_parameters())
    meta = moved(tensors, torch.device("meta"))
    assert {name: t.shape for name, t in meta.items()} == {n: t.shape for n, t in tensors.items()}
    assert all(tensor.is_meta for tensor in meta.values())
