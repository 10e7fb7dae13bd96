"""What is to be done for examples: nothing, go on, or begin."""

import pytest

from cog_adapt.runner.config import Recipe
from cog_adapt.runner.errors import InputError, StoreError
from cog_adapt.runner.examples import Example
from cog_adapt.runner.planning import Wanted, decided_meanwhile, plan
from cog_adapt.runner.storage.decisions import Decision
from tests.cog_adapt.models import Letters
from tests.cog_adapt.present import present
from tests.cog_adapt.runner.asking import FEW, LOW_HIGH, Asker

ROWS = [Example(text, label) for label, texts in LOW_HIGH.items() for text in texts]


@pytest.fixture
def runner(make_runner):
    return make_runner(Letters())


def id_of(learned):
    return present(present(learned).adapter).id


def test_what_is_unknown_begins_from_nothing(runner):
    planned = plan(runner, Wanted(ROWS, FEW))
    assert (planned.known, planned.begin, planned.started_from) == (None, None, None)
    assert present(planned.state).suffix == ".safetensors"
    assert decided_meanwhile(runner, planned) is None


def test_what_is_known_is_opened(runner):
    done = Asker(runner).now()
    for planned in (plan(runner, Wanted(ROWS, FEW)), plan(runner, Wanted(ROWS, FEW, fresh=True))):
        assert id_of(planned.known) == done.adapter
        assert id_of(decided_meanwhile(runner, planned)) == done.adapter


def test_owners_share_no_run_and_no_state(runner):
    one, other = (plan(runner, Wanted(ROWS, FEW, owner)) for owner in ("ann", "bob"))
    assert one.run != other.run
    assert one.state != other.state


def test_a_decision_for_the_base_is_known_without_an_adapter(runner):
    key = present(plan(runner, Wanted(ROWS, FEW)).key)
    decision = Decision(key.whole, key.family, None, {"method": "base"}, {"key": key.whole})
    runner.store.decisions.keep("", decision)
    known = present(plan(runner, Wanted(ROWS, FEW)).known)
    assert (known.adapter, known.report) == (None, {"method": "base", "known": True})
    answered = Asker(runner).now(labels=["low", "high"])
    assert answered.adapter is None
    assert answered.predictions == Asker(runner).now("", labels=["low", "high"]).predictions
    assert answered.report["known"] is True


def test_a_known_part_is_the_start_unless_its_method_is_another(runner):
    done = Asker(runner).now()
    more = [*ROWS, Example("ad", "low")]
    assert plan(runner, Wanted(more, FEW)).started_from == done.adapter
    key = present(plan(runner, Wanted(ROWS, FEW)).key)
    other = Recipe("norms", max_steps=3, learning_rate=0.02)
    norms = present(plan(runner, Wanted(ROWS, other)).key)
    stolen = Decision(norms.whole, norms.family, done.adapter, {}, rows=key.rows)
    runner.store.decisions.keep("", stolen)
    assert plan(runner, Wanted(more, other)).started_from is None


def test_a_store_that_cannot_be_read_makes_it_again(runner, monkeypatch, caplog):
    Asker(runner).now()

    def far(reference, owner=""):
        raise StoreError("no answer")

    monkeypatch.setattr(runner.store, "get", far)
    assert plan(runner, Wanted(ROWS, FEW)).known is None
    assert "is made again: no answer" in caplog.text
    monkeypatch.undo()
    assert plan(runner, Wanted(ROWS, FEW)).known


def test_a_recipe_that_does_not_fit_the_named_adapter_is_refused(runner):
    begin = runner.store.get(Asker(runner).now().adapter)
    with pytest.raises(InputError, match="method is 'norms', but adapter"):
        plan(runner, Wanted(ROWS, Recipe("norms"), begin=begin, parent=begin.id))
