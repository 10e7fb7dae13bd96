"""A stacked replica gives each row what its own adapter's module gives."""

import gc
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from cog_adapt.runner.inference.served_adapters import ServedAdapters
from cog_adapt.runner.inference.stacked import (
    PairStacks,
    StackedHead,
    stacked_replica,
)
from cog_adapt.runner.inference.structures import Structure, Structures
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.modules.batch_rows import batch_rows, holding
from gradient_check.phases.precision import Precision
from gradient_check.phases.replicas import freeze, make_template
from gradient_check.tests.models import TinyTransformer, seeded_module
from tests.cog_adapt.mixed import Encoder, adapter, loaded

HEAD = r"head\..*"
PAIRS = (("attention.query", 2, 2.0), ("attention.value", 2, 2.0))


@pytest.fixture
def model():
    return loaded(device="cpu")


def serve(model, *adapters):
    served = ServedAdapters(model.base.template, Precision(torch.device("cpu")), 9, 2**40)
    return [served.get(made.id, partial(lambda one: one, made)) for made in adapters]


def structure_of(model, made):
    return Structures(model.base.template, HEAD).of(made)


def test_the_structure_names_pairs_and_head(model):
    (lora, head) = serve(model, adapter(model, 1), adapter(model, 2, rank=0))
    assert structure_of(model, lora) == Structure(PAIRS, "head")
    assert structure_of(model, head) == Structure((), "head")


def test_rows_without_pairs_join_any_structure():
    with_pairs, without = Structure(PAIRS, "head"), Structure((), "head")
    assert with_pairs.joined(without) is with_pairs
    assert without.joined(with_pairs) is with_pairs
    assert with_pairs.joined(with_pairs) is with_pairs
    assert with_pairs.joined(Structure(PAIRS[:1], "head")) is None
    assert with_pairs.joined(Structure(PAIRS, "")) is None


@pytest.mark.parametrize(
    "tensors",
    [{"norm.weight": torch.ones(8)}, {"embedding.weight": torch.ones(128, 8)}],
    ids=["norm", "embedding"],
)
def test_what_an_adapter_replaces_beside_has_no_structure(model, tensors):
    (served,) = serve(model, adapter(model, 1, tensors=tensors))
    assert structure_of(model, served) is None


def test_a_head_that_is_tied_to_another_layer_has_no_structure():
    base = seeded_module(TinyTransformer)
    freeze(base)
    tied = Adapter({"output.weight": torch.ones(32, 8)}, (), "head", "0" * 16)
    (served,) = serve(SimpleNamespace(base=SimpleNamespace(template=make_template(base))), tied)
    assert Structures(make_template(base), r"output\..*").of(served) is None


def test_each_row_has_its_own_pair_and_head(model):
    holders = serve(model, *(adapter(model, n, labels=n + 2) for n in range(3)))
    structure = structure_of(model, holders[0])
    assert structure is not None
    replica = stacked_replica(model.base.template, structure)
    batch = model.task.encode(["abc", "de", "fghij", "k", "lm", "abcdefgh"])
    rows = [holders[number] for number in (0, 1, 2, 1, 0, 2)]
    with torch.no_grad(), holding(rows):
        outputs = replica(batch)
    for row, served in enumerate(rows):
        with torch.no_grad():
            alone = served.module({name: tensor[[row]] for name, tensor in batch.items()})
        width = alone.shape[1]
        torch.testing.assert_close(outputs[row, :width], alone[0], rtol=1e-5, atol=1e-5)
        assert outputs[row, width:].tolist() == [0.0] * (4 - width)


def test_a_head_notes_the_widths(model):
    two = serve(model, adapter(model, 1, labels=2), adapter(model, 2, labels=5))
    head = StackedHead("head")
    with holding([two[1], two[0], two[1]]):
        assert head(torch.ones(3, 8)).shape == (3, 5)
    assert head.widths == {id(two[0]): 2, id(two[1]): 5}


def test_the_replica_shares_the_bases_storage_and_trains_nothing(model):
    replica = stacked_replica(model.base.template, Structure(PAIRS, "head"))
    assert isinstance(replica.get_submodule("head"), StackedHead)
    own, base = dict(replica.named_parameters()), dict(model.base.module.named_parameters())
    assert all(own[name].data_ptr() == base[name].data_ptr() for name in own)
    assert not any(p.requires_grad for p in own.values())
    assert isinstance(model.base.template, Encoder)
    assert type(model.base.template.get_submodule("head")) is torch.nn.Linear


class Crowd:
    """Rows of several adapters, and a replica that keeps stacks."""

    def __init__(self, model, count=3, most_bytes=2**20):
        made = [adapter(model, number) for number in range(count)]
        self.served = ServedAdapters(model.base.template, Precision(torch.device("cpu")), 9, 2**40)
        self.ids = [one.id for one in made]
        for one in made:
            self.served.get(one.id, partial(lambda one: one, one))
        self.stacks = PairStacks(most_bytes)
        structure = structure_of(model, self.rows([0])[0])
        assert structure is not None
        self.replica = stacked_replica(model.base.template, structure, self.stacks)
        self.batch = model.task.encode(["abc", "de", "fghij"])

    def rows(self, numbers):
        return [self.served.find(self.ids[number]) for number in numbers]

    def outputs(self, numbers):
        """The rows of one forward, each by the adapter of that number."""
        rows = self.rows(numbers)
        batch = {name: tensor[: len(rows)] for name, tensor in self.batch.items()}
        with torch.no_grad(), self.stacks.keeping(rows), holding(rows):
            return self.replica(batch)

    def alone(self, numbers):
        with torch.no_grad():
            return torch.cat(
                [
                    served.module({name: tensor[[row]] for name, tensor in self.batch.items()})
                    for row, served in enumerate(self.rows(numbers))
                ]
            )


def test_stacks_of_rows_that_come_again_are_kept_and_give_the_same(model):
    crowd = Crowd(model)
    expected = crowd.outputs([0, 1, 2])
    assert crowd.stacks.bytes == 0  # once may be all
    for _ in range(2):
        assert torch.equal(crowd.outputs([0, 1, 2]), expected)
    sizes = [
        tensor.nbytes for served in crowd.rows([0, 1, 2]) for tensor in served.module.parameters()
    ]
    assert 0 < crowd.stacks.bytes < sum(sizes)
    torch.testing.assert_close(expected, crowd.alone([0, 1, 2]), rtol=1e-5, atol=1e-5)


def test_rows_in_another_order_never_meet_the_kept_stacks_of_others(model):
    crowd = Crowd(model)
    for numbers in ([0, 1, 2], [0, 1, 2], [2, 1, 0], [0, 1, 2], [2, 1, 0], [1, 1, 0], [0, 1]):
        own = crowd.alone(numbers)
        torch.testing.assert_close(crowd.outputs(numbers), own, rtol=1e-5, atol=1e-5)


def test_an_adapter_that_goes_takes_the_stacks_with_it(model):
    crowd = Crowd(model)
    for _ in range(2):
        crowd.outputs([0, 1])
    kept = crowd.stacks.bytes
    for _ in range(2):
        crowd.outputs([1, 2])
    assert crowd.stacks.bytes == 2 * kept
    crowd.served.forget(crowd.ids[0])
    gc.collect()
    assert crowd.stacks.bytes == kept


def test_stacks_that_do_not_fit_are_made_for_each_forward(model):
    crowd = Crowd(model, most_bytes=100)
    for _ in range(3):
        own = crowd.alone([0, 1, 2])
        torch.testing.assert_close(crowd.outputs([0, 1, 2]), own, rtol=1e-5, atol=1e-5)
    assert crowd.stacks.bytes <= 100


def test_the_stacks_of_few_groups_are_kept_and_all_go_when_told(model):
    crowd = Crowd(model)
    groups = [[0, 1], [1, 0], [0, 2], [2, 0], [1, 2], [2, 1]]
    for numbers in groups * 3:
        crowd.outputs(numbers)
    assert crowd.stacks.bytes == 0  # six take turns, and each has gone before it comes again
    for numbers in groups[:4] * 2:
        crowd.outputs(numbers)
    assert crowd.stacks.bytes > 0
    crowd.stacks.clear()
    assert crowd.stacks.bytes == 0


def test_rows_that_a_model_picks_do_not_get_the_stacks_of_all(model):
    crowd = Crowd(model)
    rows, picked = crowd.rows([0, 1, 2]), torch.tensor([2, 0, 1])
    batch = {name: tensor[picked] for name, tensor in crowd.batch.items()}
    for _ in range(3):
        with torch.no_grad(), crowd.stacks.keeping(rows), holding(rows):
            crowd.replica(crowd.batch)
            with batch_rows(picked):
                outputs = crowd.replica(batch)
    expected = crowd.alone([0, 1, 2])[picked]
    torch.testing.assert_close(outputs, expected, rtol=1e-5, atol=1e-5)
