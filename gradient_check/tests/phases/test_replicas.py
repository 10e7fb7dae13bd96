"""A replica shares what is frozen and owns what may change."""

import threading
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from gradient_check.phases.errors import SetupError, WeightsError
from gradient_check.phases.lora import LoRALinear, lora_tensors
from gradient_check.phases.modes import under_inference_mode
from gradient_check.phases.replicas import (
    changed_buffers,
    copies_alive,
    freeze,
    is_norm,
    make_template,
    modules_in_training,
    serving_replica,
    trained_tensors,
    training_replica,
)
from gradient_check.tests.models import (
    CachingMlp,
    ConvNet,
    SpectralNet,
    TinyTransformer,
    seeded_module,
)
from gradient_check.tests.states import module_state


def base_of(make, **changes):
    module = seeded_module(make)
    freeze(module)
    return module


def parameters(module):
    return dict(module.named_parameters(remove_duplicate=False))


def test_frozen_parameters_share_the_bases_memory():
    base = base_of(ConvNet)
    replica: Any = training_replica(make_template(base), {"head.weight": base.head.weight})
    for name, parameter in parameters(replica).items():
        shared = parameter.data_ptr() == base.get_parameter(name).data_ptr()
        assert shared == (name != "head.weight")
        assert parameter.requires_grad == (name == "head.weight")
        assert parameter is not base.get_parameter(name)


@pytest.mark.parametrize("make", [training_replica, serving_replica])
def test_buffers_are_the_replicas_own(make):
    base = base_of(ConvNet)
    before = module_state(base)
    replica = make(make_template(base), {"head.weight": base.head.weight})
    for name, buffer in replica.named_buffers():
        assert buffer.data_ptr() != base.get_buffer(name).data_ptr()
    replica.train()(torch.ones(4, 8))
    freeze(base)
    assert module_state(base) == before


def test_training_a_replica_of_all_weights_leaves_the_base_alone():
    base = base_of(ConvNet)
    before = module_state(base)
    replica: Any = training_replica(make_template(base), dict(base.named_parameters()))
    replica.train()
    replica(torch.ones(4, 8)).sum().backward()
    torch.optim.SGD(replica.parameters(), lr=1.0).step()
    assert not torch.equal(replica.get_parameter("fc.weight"), base.get_parameter("fc.weight"))
    assert module_state(base) == before


def test_the_start_tensors_are_copied():
    base = base_of(ConvNet)
    start = {"head.weight": torch.ones(2, 8)}
    replica: Any = training_replica(make_template(base), start)
    with torch.no_grad():
        replica.head.weight.zero_()
    assert start["head.weight"].sum() == 16


def test_a_head_of_a_new_shape_takes_the_old_ones_place():
    base = base_of(ConvNet)
    tensors = {"head.weight": torch.ones(7, 8), "head.bias": torch.zeros(7)}
    replica: Any = training_replica(make_template(base), tensors)
    assert replica(torch.ones(2, 8)).shape == (2, 7)
    assert base.head.weight.shape == (3, 8)


def test_trained_tensors_are_float32_though_the_base_is_bfloat16():
    base = seeded_module(ConvNet).bfloat16()
    freeze(base)
    replica: Any = training_replica(
        make_template(base), {"fc.weight": base.get_parameter("fc.weight")}
    )
    assert replica.fc.weight.dtype is torch.float32
    assert replica.conv.weight.dtype is torch.bfloat16


def test_a_served_adapter_is_frozen_and_in_eval():
    base = base_of(ConvNet)
    replica = serving_replica(make_template(base), {"head.weight": torch.ones(2, 8)})
    assert not any(p.requires_grad for p in replica.parameters())
    assert not any(part.training for part in replica.modules())


def test_a_replica_made_inside_inference_mode_trains():
    base = base_of(ConvNet)
    template = under_inference_mode(make_template, base)
    replica: Any = under_inference_mode(training_replica, template, dict(base.named_parameters()))
    replica.train()
    replica(torch.ones(4, 8)).sum().backward()
    assert replica.fc.weight.grad is not None


@pytest.mark.parametrize("name", ["embedding.weight", "output.weight"])
def test_a_tie_stays_a_tie_whichever_of_its_names_is_trained(name):
    base: Any = base_of(TinyTransformer)
    replica: Any = training_replica(make_template(base), {name: base.embedding.weight})
    assert replica.output.weight is replica.embedding.weight
    assert replica.output.weight.requires_grad
    assert replica.output.weight.data_ptr() != base.output.weight.data_ptr()
    assert list(trained_tensors(replica)) == ["embedding.weight"]  # listed once


def test_a_frozen_tie_stays_a_tie():
    base: Any = base_of(TinyTransformer)
    replica: Any = training_replica(make_template(base), {"head.weight": base.head.weight})
    assert replica.output.weight is replica.embedding.weight


def test_a_lora_pair_joins_its_layer():
    base: Any = base_of(TinyTransformer)
    query = base.blocks[0].attention.query
    pair = lora_tensors(query, 2, torch.Generator().manual_seed(0))
    named = {f"blocks.0.attention.query.{leaf}": tensor for leaf, tensor in pair.items()}
    replica: Any = training_replica(make_template(base), named)
    layer = replica.blocks[0].attention.query
    assert type(layer) is LoRALinear
    assert type(query) is nn.Linear
    assert not hasattr(query, "lora_a")
    assert type(replica.blocks[0].attention.key) is nn.Linear
    assert layer.weight.data_ptr() == query.weight.data_ptr()
    assert set(trained_tensors(replica)) == set(named)
    ids = torch.tensor([[1, 2, 3, 4, 5, 6]])
    assert torch.equal(replica.eval()(ids)[0], base(ids)[0])  # B is zero


def test_trained_tensors_are_copies():
    base = base_of(ConvNet)
    replica: Any = training_replica(make_template(base), {"head.weight": base.head.weight})
    tensors = trained_tensors(replica)
    with torch.no_grad():
        replica.head.weight.zero_()
    assert tensors["head.weight"].abs().sum() > 0
    assert not tensors["head.weight"].requires_grad


def test_buffers_that_training_changed_are_kept_and_served():
    base = base_of(SpectralNet)
    template = make_template(base)
    replica: Any = training_replica(template, dict(base.named_parameters()))
    assert changed_buffers(replica, template) == {}
    replica.train()(torch.ones(2, 8))
    changed = changed_buffers(replica, template)
    assert changed
    assert set(changed) <= set(dict(base.named_buffers()))
    served = serving_replica(template, trained_tensors(replica) | changed)
    replica.eval()
    x = torch.ones(2, 8)
    assert torch.equal(served(x), replica(x))


def test_a_buffer_that_only_a_forward_counts_is_not_taken():
    base = base_of(ConvNet)
    base.register_buffer("positions", torch.arange(3))
    base.register_buffer("mean", torch.zeros(3))
    template = make_template(base)
    replica: Any = training_replica(template, dict(base.named_parameters()))
    replica.train()(torch.ones(2, 8))
    replica.get_buffer("positions").add_(10**9)
    replica.get_buffer("mean").add_(1)
    assert changed_buffers(replica, template) == {}


def test_a_cache_is_no_changed_buffer():
    template = make_template(base_of(CachingMlp))
    replica: Any = training_replica(
        template, {"head.weight": template.get_parameter("head.weight")}
    )
    replica(torch.ones(1, 8))
    assert replica.cache is not None
    assert template.cache is None
    assert changed_buffers(replica, template) == {}


def test_plain_attributes_are_copied_too():
    template = make_template(base_of(CachingMlp))
    replica: Any = training_replica(
        template, {"head.weight": template.get_parameter("head.weight")}
    )
    replica(torch.ones(1, 8))
    assert template.calls == {"forward": 0}


def test_a_tensor_without_a_place_is_refused_by_name():
    template = make_template(base_of(ConvNet))
    with pytest.raises(WeightsError, match=r"tail\.weight has no place in ConvNet.*'tail'"):
        serving_replica(template, {"tail.weight": torch.ones(1)})


@pytest.mark.parametrize(
    "attribute", [threading.Lock(), (n for n in [1]), torch.ones(1, requires_grad=True) * 2]
)
def test_a_module_that_cannot_be_copied_is_refused_with_the_remedy(attribute):
    base = base_of(ConvNet)
    base.attribute = attribute
    with pytest.raises(SetupError, match=r"ConvNet cannot be copied: .*Keep locks, sessions"):
        make_template(base)


def test_copies_have_tables_of_their_own():
    base = base_of(TinyTransformer)
    one, other = serving_replica(base, {}), serving_replica(base, {})
    for parts in zip(base.modules(), one.modules(), other.modules(), strict=True):
        tables = [part._forward_hooks for part in parts] + [part._buffers for part in parts]
        assert len({id(table) for table in tables}) == 6
    next(one.children()).register_forward_hook(lambda *_: None)
    assert not any(part._forward_hooks for root in (base, other) for part in root.modules())


def test_a_table_that_two_parts_share_stays_shared():
    module: Any = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    module[0].notes = module[1].notes = {}
    copy: Any = serving_replica(module, {})
    assert copy[0].notes is copy[1].notes is not module[0].notes


def test_copies_are_counted_while_they_live():
    before = copies_alive()
    replica: Any = serving_replica(base_of(ConvNet), {})
    assert copies_alive() == before + 1
    del replica
    assert copies_alive() == before


def test_a_pruned_layer_is_copied_and_trains():
    net: Any = nn.Sequential(nn.Linear(4, 4))
    prune.l1_unstructured(net[0], "weight", amount=0.5)
    template = make_template(net)
    replica: Any = training_replica(template, {n: p.detach() for n, p in net.named_parameters()})
    replica(torch.ones(1, 4)).sum().backward()
    gradient = replica[0].weight_orig.grad
    assert torch.equal(gradient, replica[0].weight_mask)
    assert replica[0].weight is not net[0].weight


def test_a_base_is_frozen_in_eval_and_without_gradients():
    module = seeded_module(ConvNet).train()
    module(torch.ones(4, 8)).sum().backward()
    freeze(module)
    assert not any(part.training for part in module.modules())
    assert not any(p.requires_grad for p in module.parameters())
    assert all(p.grad is None for p in module.parameters())


def test_norms_are_told():
    class RootMeanSquareNorm(nn.Module):
        pass

    norms = [nn.BatchNorm2d(1), nn.LayerNorm(1), nn.GroupNorm(1, 1), nn.RMSNorm(1)]
    assert all(map(is_norm, [*norms, RootMeanSquareNorm()]))
    assert not any(map(is_norm, [nn.Linear(1, 1), nn.Dropout(), nn.Sequential()]))


def training_of(make, *names):
    base = base_of(make)
    tensors = {name: base.get_parameter(name) for name in names}
    return modules_in_training(training_replica(make_template(base), tensors))


def test_modules_round_trained_parameters_train_and_their_dropout_with_them():
    assert training_of(TinyTransformer, "blocks.0.feed.weight") == {
        *("", "blocks", "blocks.0", "blocks.0.feed", "blocks.0.drop"),
    }


def test_frozen_blocks_stay_in_eval_with_their_dropout():
    training = training_of(TinyTransformer, "head.weight")
    assert training == {"", "head"}


def test_norms_stay_in_eval_even_when_they_are_trained():
    training = training_of(ConvNet, "norm.weight", "fc.weight")
    assert "norm" not in training
    assert {"", "fc", "drop"} <= training


def test_spectral_norm_follows_the_weights_that_are_trained():
    training = training_of(SpectralNet, "spectral.parametrizations.weight.original")
    assert "spectral.parametrizations.weight.0" in training
