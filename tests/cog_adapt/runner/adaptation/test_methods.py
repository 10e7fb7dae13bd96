"""A method chooses what is trained."""

import time

import pytest
import torch

from cog_adapt.runner.adaptation.methods import (
    automatic_learning_rate,
    blocks_of,
    continuing,
    lora_layers,
    own_method,
    start_tensors,
)
from cog_adapt.runner.adaptation.run import adapt
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.modules.adapters import Adapter
from gradient_check.phases.replicas import freeze, make_template
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import NOTHING, SHAPES, examples
from tests.cog_adapt.runner.ticks import drained
from tests.cog_adapt.texts import Texts


def chosen(shape, method, **changes):
    task = SHAPES[shape]()
    base = task.load()
    freeze(base)
    return start_tensors(make_template(base), task, Recipe(method, **changes))


HEAD = {"head.weight", "head.bias"}


def test_lora_gives_a_pair_for_each_target_and_the_head():
    tensors = chosen("letters", "lora", rank=3)
    pairs = {
        f"blocks.{block}.attention.{name}.{leaf}"
        for block in (0, 1)
        for name in ("query", "value")
        for leaf in ("lora_a", "lora_b")
    }
    assert set(tensors) == pairs | HEAD
    assert tensors["blocks.0.attention.query.lora_a"].shape == (3, 8)
    assert tensors["blocks.0.attention.query.lora_b"].shape == (8, 3)
    assert not tensors["blocks.0.attention.query.lora_b"].any()


def test_each_layers_pair_is_its_own_and_drawn_from_the_seed():
    one, same, other = (chosen("letters", "lora", seed=seed) for seed in (1, 1, 2))
    name = "blocks.{}.attention.query.lora_a"
    assert torch.equal(one[name.format(0)], same[name.format(0)])
    assert not torch.equal(one[name.format(0)], one[name.format(1)])
    assert not torch.equal(one[name.format(0)], other[name.format(0)])


def test_head_trains_the_head_alone():
    assert set(chosen("letters", "head")) == HEAD


def test_norms_train_the_norms_weights_and_biases():
    norms = {
        f"{norm}.{leaf}"
        for norm in ("blocks.0.norm1", "blocks.0.norm2", "blocks.1.norm1", "blocks.1.norm2", "norm")
        for leaf in ("weight", "bias")
    }
    assert set(chosen("letters", "norms")) == norms | HEAD


def test_bias_trains_every_bias():
    names = set(chosen("images", "bias"))
    assert names == {"conv.bias", "norm.bias", "fc.bias"} | HEAD


def test_all_trains_every_parameter_and_a_tie_once():
    task = SHAPES["letters"]()
    assert set(chosen("letters", "all")) == {name for name, _ in task.load().named_parameters()}


def test_match_trains_the_names_that_a_glob_fits_as_a_whole():
    assert set(chosen("images", "match:fc.*")) == {"fc.weight", "fc.bias"} | HEAD
    assert set(chosen("images", "match:f?.*,conv.bi[ao]s")) == {
        *("fc.weight", "fc.bias", "conv.bias"),
        *HEAD,
    }


@pytest.mark.parametrize("hostile", ["*a" * 100, "*" * 200, "?*" * 100, "[a-z]*" * 33, "*,*a" * 50])
def test_no_pattern_takes_long_however_long_the_names_are(hostile):
    module = torch.nn.Module()
    module.register_parameter("a" * 5_000, torch.nn.Parameter(torch.zeros(1)))
    begun = time.process_time()
    assert start_tensors(module, SHAPES["letters"](), Recipe(f"match:{hostile}"))
    assert time.process_time() - begun < 0.5  # the regular expression of the same sense: for ever


@pytest.mark.parametrize(("shape", "method"), sorted(NOTHING - {("lazy", "norms")}))
def test_a_method_that_finds_nothing_is_refused_whatever_the_head_is(shape, method):
    with pytest.raises(InputError, match=rf"method '{method}' finds nothing to train in "):
        chosen(shape, method)


@pytest.mark.parametrize("method", ["lora", "head", "norms", "bias", "all", "match:*"])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_method_chooses_gets_a_gradient_and_nothing_else_does(shape, method, monkeypatch):
    if (shape, method) in NOTHING:
        return
    model = LoadedModel(SHAPES[shape](), RunnerSettings(device=DEVICE))
    start, seen, loss = (
        model.start(examples(shape), Recipe(method, max_steps=1)),
        [],
        model.task.loss,
    )

    def noted(module, batch, targets):
        seen.append(module)
        return loss(module, batch, targets)

    monkeypatch.setattr(model.task, "loss", noted)
    drained(adapt(start))
    (replica,) = {*seen}
    with_gradient = {name for name, p in replica.named_parameters() if p.grad is not None}
    assert with_gradient == set(start.trained.tensors)
    assert all(p.requires_grad == (p.grad is not None) for p in replica.parameters())


def test_the_automatic_rate_follows_the_width_and_is_ten_times_larger_for_lora():
    task = SHAPES["letters"]()
    template = task.load()
    rates = {m: automatic_learning_rate(template, task, m) for m in ("lora", "head", "all")}
    assert rates["lora"] == rates["head"] == float(f"{5e-4 * (2000 / 8) ** 0.78:.1e}")
    assert rates["all"] == pytest.approx(rates["lora"] / 10, rel=0.05)
    assert automatic_learning_rate(template, task, "match:*") == rates["all"]


def test_a_model_without_targets_has_a_rate_too():
    task = SHAPES["images"]()
    task.lora_targets = "nothing"
    assert 1e-6 < automatic_learning_rate(task.load(), task, "lora") < 0.1


def test_lora_leaves_subclasses_of_linear_alone():
    task = SHAPES["letters"]()
    task.lora_targets = ".*"
    module = torch.nn.Sequential(torch.nn.MultiheadAttention(8, 2), torch.nn.Linear(8, 8))
    assert [name for name, _ in lora_layers(module, task)] == ["1"]


def in_last_blocks(method, blocks):
    task = Texts()
    base = task.load()
    freeze(base)
    return start_tensors(make_template(base), task, Recipe(method, blocks=blocks))


@pytest.mark.parametrize("method", ["lora", "norms", "bias", "all", "match:*norm*,emb*"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_blocks_are_the_last_ones_and_what_lies_outside_is_left_alone(method, blocks):
    names, every = set(in_last_blocks(method, blocks)), set(in_last_blocks(method, 0))
    last = tuple(f"blocks.{number}." for number in range(3 - blocks, 3))
    assert names == {name for name in every if name.startswith(last)} | HEAD
    assert len(names) > len(HEAD)


def test_head_trains_the_head_whatever_blocks_says():
    assert set(in_last_blocks("head", 1)) == HEAD


def test_more_blocks_than_there_are_are_refused():
    with pytest.raises(InputError, match=r"blocks is 4, but Texts names 3 .* at most 3"):
        in_last_blocks("lora", 4)
    with pytest.raises(InputError, match=r"Letters names 0 .* set `blocks` in the task"):
        chosen("letters", "lora", blocks=1)


@pytest.mark.parametrize(
    ("method", "blocks", "own"),
    [("lora", 1, 1), ("lora", 2, 2), ("lora", 0, 3), ("head", 0, 0), ("all", 2, 2), ("all", 0, 0)],
)
def test_an_adapter_says_which_blocks_it_trains(method, blocks, own):
    task, tensors = Texts(), in_last_blocks(method, blocks)
    adapter = Adapter(tensors, ("a", "b"), method, "base")
    assert blocks_of(adapter, task) == own
    for same in (0, own):
        assert continuing(Recipe(blocks=same), task, adapter).blocks == 0
    other = (
        rf"blocks is {own + 1}, but adapter {adapter.id} was made with {own}. Leave `blocks` out"
    )
    with pytest.raises(InputError, match=other):
        continuing(Recipe(blocks=own + 1), task, adapter)


@pytest.mark.parametrize("made", [torch.nn.Conv2d(3, 4, 3), torch.nn.Embedding(4, 4)])
def test_a_task_that_names_no_method_trains_all_where_no_layer_can_have_a_pair(made):
    task = SHAPES["letters"]()
    task.lora_targets = ".*"
    net = torch.nn.Sequential(made)
    assert (own_method(net, task), own_method(task.load(), task)) == ("all", "lora")
    assert set(start_tensors(net, task, Recipe())) == {name for name, _ in net.named_parameters()}
    with pytest.raises(InputError, match="'lora' finds nothing .* no linear layer below the head"):
        start_tensors(net, task, Recipe("lora"))
    task.method = "norms"
    assert own_method(net, task) == "norms"
