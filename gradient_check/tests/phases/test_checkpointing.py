"""The repeated blocks of a private replica recompute their activations."""

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import checkpoint
from torch.utils._pytree import tree_leaves

from gradient_check.phases.checkpointing import blocks, recompute_blocks
from gradient_check.phases.errors import InputError
from gradient_check.tests.models import ConvNet, TinyTransformer, seeded_module

IDS = torch.tensor([[1, 2, 3, 4, 5, 6]])


def test_the_blocks_are_the_children_of_the_longest_list():
    module = nn.Module()
    module.short = nn.Sequential(nn.Linear(1, 1))
    module.layers = nn.ModuleList(nn.Linear(1, 1) for _ in range(3))
    assert blocks(module) == list(module.layers)
    assert blocks(nn.Linear(1, 1)) == []


def test_of_several_lists_those_count_whose_parameters_are_trained():
    def stack(count):
        return nn.ModuleList(nn.Sequential(nn.Linear(1, 1)) for _ in range(count))

    encoder, pairs, singles = stack(4), stack(2), stack(3)
    module = nn.ModuleDict({"encoder": encoder, "pairs": pairs, "singles": singles})
    assert blocks(module) == [*encoder, *singles, *pairs]
    encoder.requires_grad_(False)
    assert blocks(module) == [*singles, *pairs]
    assert blocks(module.requires_grad_(False)) == list(encoder)


def test_layers_beside_the_blocks_and_lists_within_them_are_none():
    own = nn.ModuleList(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)) for _ in range(3))
    head = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    assert blocks(nn.ModuleDict({"blocks": own, "head": head})) == list(own)


def test_a_model_without_blocks_is_refused_by_name():
    with pytest.raises(InputError, match="checkpointing is on, but ConvNet has no ModuleList"):
        recompute_blocks(seeded_module(ConvNet))


def gradients(module):
    module(IDS)[0].sum().backward()
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("frozen", [(), ("embedding.weight", "position")])
def test_gradients_are_the_same_also_where_a_blocks_inputs_need_none(frozen):
    plain, recomputed = seeded_module(TinyTransformer), seeded_module(TinyTransformer)
    recompute_blocks(recomputed)
    for module in (plain, recomputed):
        module.eval()
        for name in frozen:
            module.get_parameter(name).requires_grad_(False)
    one, other = gradients(plain), gradients(recomputed)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_dropout_is_the_same_when_it_is_recomputed():
    results = []
    for recompute in (False, True):
        module = seeded_module(TinyTransformer).train()
        if recompute:
            recompute_blocks(module)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            results.append(gradients(module))
    assert all(torch.equal(results[0][name], results[1][name]) for name in results[0])


def test_a_replica_that_recomputes_is_freed_when_it_is_let_go_of():
    module = seeded_module(TinyTransformer)
    recompute_blocks(module)
    gradients(module)
    gone = weakref.ref(module.blocks[0].feed.weight)
    gc.collect()
    gc.disable()
    try:
        del module
        assert gone() is None
    finally:
        gc.enable()


def test_a_block_runs_again_in_backward_and_others_once():
    module = seeded_module(TinyTransformer)
    recompute_blocks(module)
    runs = []
    for part in (module.blocks[0].feed, module.blocks[1].feed, module.head):
        part.register_forward_hook(lambda part, *_: runs.append(part))
    module(IDS)[0].sum().backward()
    assert [runs.count(block.feed) for block in module.blocks] == [2, 2]
    assert runs.count(module.head) == 1
    assert type(module.blocks[0]).__name__ == "RecomputedBlock"


def test_a_list_of_one_has_no_repeated_blocks():
    assert blocks(nn.Sequential(nn.Linear(1, 1))) == []
    assert len(blocks(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)))) == 2


class Place(nn.Module):
    """A block that is called with its tensors by name, or inside an object."""

    def __init__(self) -> None:
        super().__init__()
        self.feed = nn.Linear(2, 2)

    def forward(self, *args, **kwargs):
        (given,) = (*args, *kwargs.values())
        return self.feed(given.hidden if isinstance(given, Hidden) else given)


class Hidden:
    def __init__(self, hidden):
        self.hidden = hidden


@pytest.mark.parametrize("way", ["by position", "by name", "in an object"])
def test_the_devices_whose_random_streams_are_kept_are_found(monkeypatch, way):
    """PyTorch keeps the streams of those devices on which it finds tensors by position."""
    seen: list[Any] = []
    real = checkpoint._infer_device_type

    def infer(*args):
        seen.extend(t for t in tree_leaves(args) if isinstance(t, torch.Tensor))
        return real(*args)

    monkeypatch.setattr(checkpoint, "_infer_device_type", infer)
    module = nn.Sequential(Place(), Place())
    recompute_blocks(module)
    hidden = torch.ones(1, 2)
    block: Any = module[0]
    given: dict[str, Any] = {"hidden": hidden} if way == "by name" else {}
    args: tuple[Any, ...] = {"by position": (hidden,), "in an object": (Hidden(hidden),)}.get(
        way, ()
    )
    block(*args, **given).sum().backward()
    assert any(tensor is block.feed.weight for tensor in seen)
    assert any(tensor is hidden for tensor in seen) or way == "in an object"
