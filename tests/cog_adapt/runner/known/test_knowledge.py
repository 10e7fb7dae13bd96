"""What a runner knows of its adaptations goes with what it came from."""

from dataclasses import replace

import pytest
import torch

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import ConfigError
from cog_adapt.runner.known.adaptation_key import input_digests
from cog_adapt.runner.known.knowledge import Knowledge
from cog_adapt.runner.storage.store import AdapterStore
from tests.cog_adapt.models import Letters
from tests.cog_adapt.runner.asking import FEW, Asker


class Noting(Letters):
    """Counts the inputs that were encoded alone, as rows are that are kept."""

    alone = 0

    def encode(self, inputs):
        self.alone += len(inputs) == 1
        return super().encode(inputs)


@pytest.fixture
def store(tmp_path):
    return AdapterStore(tmp_path)


def test_the_model_and_the_task_are_its_origin(store):
    one, other = (Knowledge(Letters(), model, RunnerSettings(), store) for model in ("a", "b"))
    assert one.origin != other.origin
    for each in (one, other):
        assert each.signer is None
        each.close()


def test_features_go_with_the_adapter_that_brought_them(make_runner):
    runner = make_runner(Letters())
    features = runner.knowledge.features
    done = Asker(runner).now()
    features.put("", ["a"], [torch.zeros(2)])
    features.bring("", ["a"], done.adapter)
    assert runner.gauges()["feature_cache_bytes"] > 8  # with its examples' encoded rows
    runner.adapters.remove("", done.adapter)
    assert features.get("", ["a"]) == [None]
    assert runner.gauges()["feature_cache_bytes"] == 0


def test_a_key_that_is_no_key_ends_the_setup(tmp_path, store):
    (tmp_path / "key.pem").write_text("no key")
    with pytest.raises(ConfigError, match="RECEIPT_KEY is .*key.pem"):
        Knowledge(Letters(), "a", RunnerSettings(receipt_key=str(tmp_path / "key.pem")), store)


@pytest.fixture
def known(store):
    known = Knowledge(Letters(), "a", RunnerSettings(), store)
    yield known
    known.close()


def test_an_owner_finds_features_of_their_own_alone(known):
    ann, bob = known.kept_of("ann"), known.kept_of("bob")
    ann.put(["one", [1, 2]], [torch.ones(2), torch.zeros(2)])
    found = ann.get([[1, 2], "two", "one"])
    assert [None if row is None else row.tolist() for row in found] == [[0, 0], None, [1, 1]]
    assert bob.get(["one", [1, 2]]) == [None, None]
    known.forget("ann")
    assert ann.get(["one"]) == [None]


def test_a_kept_row_does_not_hold_the_batch_that_it_came_from(known):
    """A view would keep the whole batch in memory, and count its own bytes alone."""
    own, batch = known.kept_of("ann"), torch.ones(1000, 2)
    own.put(["one"], [batch[3]])
    (row,) = own.get(["one"])
    assert row.untyped_storage().nbytes() == 8
    batch.zero_()
    assert row.tolist() == [1, 1]


def test_what_is_no_row_of_features_is_not_taken_for_one(known):
    own = known.kept_of("ann")
    own.put(["one"], [torch.ones(2)])
    known.features.put("ann", input_digests(["two"]), [{"ids": torch.ones(1, 2)}])
    assert own.get(["two"]) == [None]
    assert own.get(["one"])[0].tolist() == [1, 1]


def test_encoded_rows_are_kept_apart_from_features_and_go_with_them(known):
    own = known.kept_of("ann")
    own.put(["one"], [torch.ones(2)])
    own.put_row("one", {"ids": torch.tensor([1, 2])})
    assert own.get_row("one")["ids"].tolist() == [1, 2]
    assert own.get(["one"])[0].tolist() == [1, 1]
    assert (own.get_row("two"), known.kept_of("bob").get_row("one")) == (None, None)
    known.features.bring("ann", input_digests(["one"]), "an adapter")
    known.forget("ann", "an adapter")
    assert (own.get_row("one"), own.get(["one"])) == (None, [None])


def test_a_large_row_is_not_kept(known):
    own = known.kept_of("ann")
    own.put_row("picture", {"pixels": torch.zeros(2**14 + 1)})
    assert own.get_row("picture") is None
    own.put_row("thumbnail", {"pixels": torch.zeros(2**14)})
    assert own.get_row("thumbnail") is not None


def test_examples_of_a_recent_request_are_not_encoded_again_for_another_recipe(make_runner):
    task = Noting()
    asker = Asker(make_runner(task))
    counts = []
    for seed, deterministic in ((0, False), (1, False), (2, True)):
        task.alone = 0
        asker.now(recipe=replace(FEW, seed=seed, method="lora"), deterministic=deterministic)
        counts.append(task.alone)
    assert counts[0] == counts[2] == 6
    assert counts[1] == 0


def test_an_input_without_a_canonical_form_is_not_kept(known):
    own, unknown = known.kept_of("ann"), object()
    own.put([unknown], [torch.ones(2)])
    assert own.get([unknown]) == [None]
