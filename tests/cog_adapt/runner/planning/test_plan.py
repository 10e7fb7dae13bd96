"""What is to be done for examples: nothing, go on, or begin."""

import asyncio
from dataclasses import replace

import pytest

from cog_adapt.runner.auto import run as auto
from cog_adapt.runner.config import AUTO, Recipe
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError, StoreError
from cog_adapt.runner.heads.decision import CLOSED, GRADIENTS, decide
from cog_adapt.runner.requests.learning import learn
from cog_adapt.runner.requests.plan import AdaptationRequest, decided_meanwhile, plan
from cog_adapt.runner.requests.replay import replay
from cog_adapt.runner.storage.decisions import Decision
from gradient_check.tests.present import present
from tests.cog_adapt.models import Letters
from tests.cog_adapt.runner.asking import FEW, LOW_HIGH, Asker
from tests.cog_adapt.runner.featured import FEW_STEPS, Featured, separated
from tests.cog_adapt.waiting import assert_stays_so

ROWS = [Example(text, label) for label, texts in LOW_HIGH.items() for text in texts]


@pytest.fixture
def runner(make_runner):
    return make_runner(Letters())


def id_of(learned):
    return present(present(learned).adapter).id


def test_what_is_unknown_begins_from_nothing(runner):
    planned = plan(runner, AdaptationRequest(ROWS, FEW))
    assert (planned.known, planned.begin, planned.started_from) == (None, None, None)
    assert present(planned.state).suffix == ".safetensors"
    assert decided_meanwhile(runner, planned) is None


def test_what_is_known_is_opened(runner):
    done = Asker(runner).now()
    for planned in (
        plan(runner, AdaptationRequest(ROWS, FEW)),
        plan(runner, AdaptationRequest(ROWS, FEW, fresh=True)),
    ):
        assert id_of(planned.known) == done.adapter
        assert id_of(decided_meanwhile(runner, planned)) == done.adapter


class Granted:
    """Stands for claims that are always granted."""

    is_held, is_waiting = True, False

    def ask(self, _owner, _key):
        return self

    def release(self):
        pass


def ask_while_away(asker, away):
    """Ask while this server has no news of others, until the news come; return the answer.

    Args:
        asker: of the runner.
        away: called with a function that returns whether the news have come.
    """

    async def scene():
        has_news = False
        away(lambda: has_news)
        asked = asyncio.create_task(asker.ask())
        await assert_stays_so(lambda: not asked.done(), 0.3)
        before = asker.runner.cache.counts["adaptations_run"]
        has_news = True
        return before, await asked

    asker.runner.cache.claims = Granted()
    return asyncio.run(scene())


def test_what_is_known_is_waited_for_while_adapters_must_not_be_found(runner):
    asker = Asker(runner)
    done = asker.now()
    _, again = ask_while_away(asker, runner.store.serving.only_while)
    assert (again.adapter, again.report["known"]) == (done.adapter, True)
    assert runner.cache.counts["adaptations_run"] == 1


def test_nothing_begins_while_others_may_have_learned_the_same(runner):
    begun, answer = ask_while_away(Asker(runner), runner.adapters.serve_while)
    assert (begun, answer.report["known"]) == (0, False)


def test_owners_share_no_run_and_no_state(runner):
    one, other = (plan(runner, AdaptationRequest(ROWS, FEW, owner)) for owner in ("ann", "bob"))
    assert one.run != other.run
    assert one.state != other.state


def test_requests_with_other_budgets_share_a_state_and_no_run(runner):
    short, long = (
        plan(runner, AdaptationRequest(ROWS, replace(FEW, budget_seconds=seconds)))
        for seconds in (1, 600)
    )
    assert short.run != long.run
    assert short.state == long.state
    exact = plan(runner, AdaptationRequest(ROWS, FEW, exact=True))
    assert exact.state != plan(runner, AdaptationRequest(ROWS, FEW)).state


def test_a_decision_for_the_base_is_known_without_an_adapter(runner):
    key = present(plan(runner, AdaptationRequest(ROWS, FEW)).key)
    decision = Decision(key.whole, key.family, None, {"method": "base"}, {"key": key.whole})
    runner.store.decisions.keep("", decision)
    known = present(plan(runner, AdaptationRequest(ROWS, FEW)).known)
    assert (known.adapter, known.report) == (None, {"method": "base", "known": True})
    answered = Asker(runner).now(labels=["low", "high"])
    assert answered.adapter is None
    assert answered.predictions == Asker(runner).now("", labels=["low", "high"]).predictions
    assert answered.report["known"] is True


def test_a_known_part_is_the_start_unless_its_method_is_another(runner):
    done = Asker(runner).now()
    more = [*ROWS, Example("ad", "low")]
    assert plan(runner, AdaptationRequest(more, FEW)).started_from == done.adapter
    key = present(plan(runner, AdaptationRequest(ROWS, FEW)).key)
    other = Recipe("norms", max_steps=3, learning_rate=0.02)
    norms = present(plan(runner, AdaptationRequest(ROWS, other)).key)
    stolen = Decision(norms.whole, norms.family, done.adapter, {}, rows=key.rows)
    runner.store.decisions.keep("", stolen)
    assert plan(runner, AdaptationRequest(more, other)).started_from is None


def test_a_store_that_cannot_be_read_makes_it_again(runner, monkeypatch, caplog):
    Asker(runner).now()

    def far(reference, owner=""):
        raise StoreError("no answer")

    monkeypatch.setattr(runner.store, "get", far)
    assert plan(runner, AdaptationRequest(ROWS, FEW)).known is None
    assert "is made again: no answer" in caplog.text
    monkeypatch.undo()
    assert plan(runner, AdaptationRequest(ROWS, FEW)).known


def test_a_recipe_that_does_not_fit_the_named_adapter_is_refused(runner):
    begin = runner.store.get(Asker(runner).now().adapter)
    with pytest.raises(InputError, match="method is 'norms', but adapter"):
        plan(runner, AdaptationRequest(ROWS, Recipe("norms"), begin=begin, parent=begin.id))


AUTOMATIC = replace(FEW_STEPS, method=AUTO)
THIRTY = separated(30)


@pytest.fixture
def automatic(make_runner, monkeypatch):
    """A runner whose gradients always win."""

    def decided(candidates, metric, *_count):
        return replace(decide(candidates, metric), chosen=GRADIENTS)

    monkeypatch.setattr(auto, "decide", decided)
    return make_runner(Featured())


def learned(runner, examples, **more):
    wanted = AdaptationRequest(examples, AUTOMATIC, **more)
    return asyncio.run(learn(runner, plan(runner, wanted), lambda _: None))


def test_auto_starts_from_the_adapter_of_most_of_the_examples_and_says_so(automatic):
    first = id_of(learned(automatic, THIRTY))
    more = [*THIRTY, *separated(10, seed=5)]
    grown = learned(automatic, more)
    assert (grown.report["started_from"], grown.report["steps"]) == (first, 3)
    assert automatic.store.known(id_of(grown), "").parent == first
    assert grown.receipt["started_from"]["id"] == first
    assert replay(automatic, grown.receipt, more).is_equal
    again = learned(automatic, more)
    assert (id_of(again), again.report["known"]) == (id_of(grown), True)
    fresh = learned(automatic, more, fresh=True)
    assert (fresh.report["started_from"], fresh.report["steps"]) == (None, 6)
    assert id_of(fresh) != id_of(grown)


def test_auto_begins_anew_where_fewer_are_known_or_a_closed_form_answered(automatic, monkeypatch):
    learned(automatic, THIRTY)
    assert (
        plan(automatic, AdaptationRequest([*THIRTY, *separated(12, seed=5)], AUTOMATIC)).begin
        is None
    )
    closed = lambda found, metric, *_: replace(decide(found, metric), chosen=CLOSED)  # noqa: E731
    monkeypatch.setattr(auto, "decide", closed)
    grown = learned(automatic, [*THIRTY, *separated(4, seed=5)])
    assert (grown.report["method"], grown.report["started_from"]) == ("head", None)
    assert grown.receipt["started_from"] is None
    assert automatic.store.known(id_of(grown), "").parent is None
    head = [*THIRTY, *separated(6, seed=5)]
    assert (
        plan(automatic, AdaptationRequest(head, AUTOMATIC)).begin is None
    )  # the closed form's is the larger


def test_auto_goes_on_from_a_named_adapter_by_its_own_method(automatic):
    begin = learned(automatic, THIRTY).adapter
    named = learned(automatic, separated(3, seed=5), begin=begin, parent=begin.id)
    assert (named.report["method"], named.report["decision"]) == ("lora", None)
    assert named.receipt["started_from"]["id"] == begin.id
