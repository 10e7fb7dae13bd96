"""What is kept of examples is their owner's, and goes with what it was kept for."""

from dataclasses import replace

import pytest
import torch

from cog_adapt.runner.known.adaptation_key import input_digests
from cog_adapt.runner.known.kept_examples import KeptExamples
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import Letters
from tests.cog_adapt.runner.asking import FEW, Asker


class Noting(Letters):
    """Counts the inputs that were encoded alone, as rows are that are kept."""

    alone = 0

    def encode(self, inputs):
        self.alone += len(inputs) == 1
        return super().encode(inputs)


@pytest.fixture
def kept():
    return KeptExamples(2**20)


def test_an_owner_finds_features_of_their_own_alone(kept):
    ann, bob = kept.of("ann"), kept.of("bob")
    ann.put(["one", [1, 2]], [torch.ones(2), torch.zeros(2)])
    found = ann.get([[1, 2], "two", "one"])
    assert [None if row is None else row.tolist() for row in found] == [[0, 0], None, [1, 1]]
    assert bob.get(["one", [1, 2]]) == [None, None]
    kept.forget("ann")
    assert ann.get(["one"]) == [None]


def test_a_kept_row_does_not_hold_the_batch_that_it_came_from(kept):
    """A view would keep the whole batch in memory, and count its own bytes alone."""
    own, batch = kept.of("ann"), torch.ones(1000, 2)
    own.put(["one"], [batch[3]])
    (row,) = own.get(["one"])
    assert row.untyped_storage().nbytes() == 8
    batch.zero_()
    assert row.tolist() == [1, 1]


def test_what_is_no_row_of_features_is_not_taken_for_one(kept):
    own = kept.of("ann")
    own.put(["one"], [torch.ones(2)])
    kept.features.put("ann", input_digests(["two"]), [{"ids": torch.ones(1, 2)}])
    assert own.get(["two"]) == [None]
    assert own.get(["one"])[0].tolist() == [1, 1]


def test_encoded_rows_are_kept_apart_from_features_and_go_with_them(kept):
    own = kept.of("ann")
    own.put(["one"], [torch.ones(2)])
    own.put_row("one", {"ids": torch.tensor([1, 2])})
    assert own.get_row("one")["ids"].tolist() == [1, 2]
    assert own.get(["one"])[0].tolist() == [1, 1]
    assert (own.get_row("two"), kept.of("bob").get_row("one")) == (None, None)
    kept.bring("ann", ["one"], "an adapter")
    kept.forget("ann", "an adapter")
    assert (own.get_row("one"), own.get(["one"])) == (None, [None])


def test_a_large_row_is_not_kept(kept):
    own = kept.of("ann")
    own.put_row("thumbnail", {"pixels": torch.zeros(2**14 - 1024)})
    assert own.get_row("thumbnail") is not None
    own.put_row("picture", {"pixels": torch.zeros(2**14 + 1)})
    assert own.get_row("picture") is None


def test_examples_of_a_recent_request_are_not_encoded_again_for_another_recipe(make_runner):
    task = Noting()
    asker = Asker(make_runner(task))
    counts = []
    for seed, deterministic in ((0, False), (1, False), (2, DEVICE == "cpu")):
        task.alone = 0
        asker.now(recipe=replace(FEW, seed=seed, method="lora"), deterministic=deterministic)
        counts.append(task.alone)
    assert counts == [6, 0, 6 if DEVICE == "cpu" else 0]  # equal bits take no kept rows


def test_an_input_without_a_canonical_form_is_not_kept(kept):
    own, unknown = kept.of("ann"), object()
    own.put([unknown], [torch.ones(2)])
    assert own.get([unknown]) == [None]


def test_rows_push_no_features_out(kept):
    own, rows = kept.of("ann"), {"ids": torch.zeros(900)}
    inputs = [str(number) for number in range(100)]
    own.put(inputs, [torch.ones(384)] * 100)
    for each in inputs:
        own.put_row(each, rows)
    assert None not in own.get(inputs)
    assert 0 < len(kept.rows) < 100
    assert kept.rows.bytes <= 2**20 // 8 // 2  # an owner has half


def failing(own):
    own.put(["one"], [torch.ones(2)])
    own.put_row("one", {"ids": torch.ones(2)})
    yield None
    raise RuntimeError("a step failed")


@pytest.mark.parametrize("how", ["failed", "left"])
def test_what_was_kept_for_work_that_came_to_nothing_goes_after_its_last_tick(kept, how):
    own = kept.of("ann")
    own.put(["earlier"], [torch.ones(2)])
    kept.bring("ann", ["earlier"], "an adapter")
    work = own.guarding(failing(own))
    next(work)
    assert (len(kept.features), len(kept.rows)) == (2, 1)
    if how == "left":
        work.close()
    else:
        with pytest.raises(RuntimeError, match="a step failed"):
            next(work)
    assert (len(kept.features), len(kept.rows)) == (1, 0)
    assert own.get(["earlier"]) != [None]


def test_what_work_returns_and_what_was_kept_for_it_stay(kept):
    own = kept.of("ann")

    def work():
        own.put(["one"], [torch.ones(2)])
        yield None
        return "adapter"

    ticks = own.guarding(work())
    next(ticks)
    with pytest.raises(StopIteration) as ended:
        next(ticks)
    assert ended.value.value == "adapter"
    assert len(kept.features) == 1


def test_after_a_large_row_none_is_digested_or_kept(kept, monkeypatch):
    own = kept.of("ann")
    own.put_row("picture", {"pixels": torch.zeros(2**14 + 1)})
    own.put_row("thumbnail", {"pixels": torch.zeros(2)})
    assert len(kept.rows) == 0
    monkeypatch.setattr("cog_adapt.runner.known.kept_examples.input_digests", None)
    assert own.get_row("thumbnail") is None
