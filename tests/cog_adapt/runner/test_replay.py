"""A receipt's steps, taken again, give the same adapter bit for bit."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import AdapterNotFound, InputError
from cog_adapt.runner.known.receipt import read_receipt, sealed
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests.few_shot import answer
from cog_adapt.runner.requests.replay import replay
from gradient_check.tests.present import present
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import Images, Letters
from tests.cog_adapt.runner.asking import EXAMPLES as SENT
from tests.cog_adapt.runner.asking import LOW_HIGH, Asker

ROWS = [Example(text, label) for label, texts in LOW_HIGH.items() for text in texts]
LONG = json.dumps({"low": [*"abcdefg"], "high": [*"tuvwxyz"]})
LONG_ROWS = [Example(t, label) for label, texts in json.loads(LONG).items() for t in texts]


@pytest.fixture
def runner(make_runner):
    return make_runner(Letters())


@pytest.fixture
def elsewhere(make_runner, tmp_path):
    return make_runner(Letters(), weights_dir=tmp_path / "elsewhere")


def receipt_of(asker):
    return read_receipt(json.dumps(asker.values("receipt")[-1]))


def test_the_same_steps_give_the_same_bits_elsewhere_too(runner, elsewhere):
    asker = Asker(runner)
    done = asker.now()
    replayed = replay(elsewhere, receipt_of(asker), ROWS)
    assert replayed.is_equal
    assert replayed.is_promised is (DEVICE == "cpu")  # a CUDA device promises by a setting
    assert replayed.steps == 3
    assert replayed.differences == ()
    assert present(replayed.adapter).id == done.adapter
    assert elsewhere.store.describe(None) == []


def test_steps_are_replayed_rather_than_the_time(runner, elsewhere):
    asker = Asker(runner)
    cut = Recipe(max_steps=30, learning_rate=0.05, hold_out=0.3, budget_seconds=0.001)
    done = asker.now(LONG, cut)
    assert done.report["stop_reason"] == "budget_seconds"
    replayed = replay(elsewhere, receipt_of(asker), LONG_ROWS)
    assert (replayed.steps, replayed.is_equal) == (done.report["steps"], True)
    asker.now(LONG, Recipe(max_steps=30, learning_rate=0.05, hold_out=0.3))
    replayed = replay(elsewhere, receipt_of(asker), LONG_ROWS)
    assert (replayed.steps, replayed.is_equal) == (30, True)


def test_a_run_in_which_memory_ran_out_is_replayed_with_the_same_parts(runner, elsewhere):
    taken: list[int] = []

    def fault(losses):
        taken.append(len(losses))
        if len(losses) > 3 and len(taken) > 3:  # the first measures what a step needs
            raise MemoryError
        return losses

    runner.task.fault = fault
    asker = Asker(runner)
    done = asker.now()
    runner.task.fault = None
    receipt = receipt_of(asker)
    assert done.report["halved_at"] == receipt["report"]["halved_at"] == 3
    replayed = replay(elsewhere, receipt, ROWS)
    assert (replayed.steps, replayed.is_equal) == (3, True)
    receipt["report"].pop("halved_at")
    assert not replay(elsewhere, receipt, ROWS).is_equal


def test_other_examples_are_refused_naming_both_digests(runner):
    asker = Asker(runner)
    asker.now()
    receipt = receipt_of(asker)
    for rows in (ROWS[:-1], ROWS[::-1], [*ROWS[:-1], Example("yd", "high")]):
        said = receipt["examples"]["digest"]
        with pytest.raises(InputError, match=rf"digest [0-9a-f]{{64}}, but .* 6 have {said}"):
            replay(runner, receipt, rows)


def test_another_base_is_refused_naming_both_digests(runner, make_runner, tmp_path):
    asker = Asker(runner)
    asker.now()
    other = make_runner(Images(), weights_dir=tmp_path / "other")
    with pytest.raises(InputError, match=rf"digest {other.base}, but .* had {runner.base}"):
        replay(other, receipt_of(asker), ROWS)


def test_one_that_went_on_begins_with_the_same_adapter(runner, elsewhere):
    asker = Asker(runner)
    first = asker.now()
    rows = json.dumps({"low": ["ad"], "mid": ["ma", "mb"]})
    asker.now(rows, adapter=first.adapter, labels=["low", "mid"])
    more = [Example("ad", "low"), Example("ma", "mid"), Example("mb", "mid")]
    receipt = receipt_of(asker)
    assert receipt["started_from"] == {"id": first.adapter, "labels": ["low"]}
    assert replay(runner, receipt, more).is_equal
    with pytest.raises(AdapterNotFound, match=f"{first.adapter}, which is not in this folder"):
        replay(elsewhere, receipt, more)
    begin = runner.store.get(first.adapter)
    assert replay(elsewhere, receipt, more, begin).is_equal
    wrong = runner.store.get(asker.now(json.dumps({"low": ["b"], "high": ["z"]})).adapter)
    with pytest.raises(InputError, match=f"is {wrong.id}, but the receipt's was {first.adapter}"):
        replay(elsewhere, receipt, more, wrong)


def test_added_examples_are_replayed_from_the_smaller_sets_adapter(runner):
    asker = Asker(runner)
    first = asker.now(SENT)
    asker.now(json.dumps(LOW_HIGH | {"mid": ["ma"]}))
    receipt = receipt_of(asker)
    assert receipt["started_from"]["id"] == first.adapter
    assert replay(runner, receipt, [*ROWS, Example("ma", "mid")]).is_equal


def test_a_receipt_has_the_number_of_threads_of_the_model_thread(make_runner, monkeypatch):
    """On a host with other runners it is not that of the thread that asks."""

    def share_cores():
        torch.set_num_threads(2)
        return 2

    monkeypatch.setattr("cog_adapt.runner.loading.share_cores", share_cores)
    monkeypatch.setattr("cog_adapt.runner.loading.watch_cores", lambda _: None)
    try:
        asker = Asker(make_runner(Letters()))
        asker.now()
    finally:
        torch.set_num_threads(1)
    assert torch.get_num_threads() == 1
    assert receipt_of(asker)["device"]["threads"] == 2
    replayed = replay(asker.runner, receipt_of(asker), ROWS)
    assert (replayed.differences, replayed.is_equal) == ((), True)


def test_an_adapter_that_is_another_is_found_out(runner):
    asker = Asker(runner)
    asker.now()
    receipt = receipt_of(asker)
    values: dict[str, Any] = {
        name: value for name, value in receipt.items() if name not in ("format", "digest")
    }
    forged = sealed(values | {"recipe": receipt["recipe"] | {"seed": 9}}, None)
    replayed = replay(runner, read_receipt(json.dumps(forged)), ROWS)
    assert not replayed.is_equal
    assert replayed.is_promised is (DEVICE == "cpu")  # a CUDA device promises by a setting
    moved = values | {"device": receipt["device"] | {"threads": 99}}
    replayed = replay(runner, sealed(moved, None), ROWS)
    assert replayed.is_equal
    assert not replayed.is_promised
    assert replayed.differences == ("device threads: 99 then, 1 now",)


def test_a_recipe_of_another_version_is_refused(runner):
    asker = Asker(runner)
    asker.now()
    receipt = receipt_of(asker)
    receipt["recipe"]["magic"] = 1
    with pytest.raises(InputError, match="recipe cannot be read here: .*magic"):
        replay(runner, receipt, ROWS)


def test_it_is_equal_on_the_shipped_model_too(tmp_path):
    task = pytest.importorskip("task", reason="the shipped task is not here")
    rows = {"delivery": ["The parcel is late.", "Not here."], "payment": ["Charged twice.", "Fee?"]}
    metrics: dict[str, Any] = {}
    scope = SimpleNamespace(context={}, record_metric=metrics.__setitem__)
    recipe = Recipe(max_steps=2, seed=3)
    request = Request(["Where is it?"], examples=json.dumps(rows), recipe=recipe)
    settings = RunnerSettings(device=DEVICE, weights_dir=tmp_path)
    with ModelRunner(task.TextClassification(), settings) as runner:
        done = asyncio.run(answer(runner, request, scope))
        receipt = read_receipt(json.dumps(metrics["adaptation.receipt"]))
        examples = [Example(text, label) for label, texts in rows.items() for text in texts]
        replayed = replay(runner, receipt, examples)
    assert (replayed.is_equal, present(replayed.adapter).id) == (True, done.adapter)
