"""An adaptation that is known takes no step, one that runs is shared, one cut short goes on."""

import asyncio
import contextlib
import json
import random
import threading
from typing import Any

import pytest
import torch

from cog_adapt.runner.adaptation.report import Step
from cog_adapt.runner.config import Recipe
from cog_adapt.runner.errors import AdaptationError, AdapterNotFound, NotFiniteError
from cog_adapt.runner.known.adaptation_key import input_digests
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.storage.index import place_of
from tests.cog_adapt.conftest import jobs_left
from tests.cog_adapt.models import Letters
from tests.cog_adapt.runner.asking import EXAMPLES, FEW, LOW_HIGH, Asker, Counting


@pytest.fixture
def task():
    return Counting()


@pytest.fixture
def runner(make_runner, task):
    made = make_runner(task)
    made.read_owner_from("owner")
    return made


@pytest.fixture
def asker(runner):
    return Asker(runner)


def steps_of(runner):
    return runner.task.trained[0]


def test_the_same_request_again_runs_no_step(runner, asker):
    first = asker.now()
    steps, shown = steps_of(runner), len(asker.values("step"))
    again = asker.now()
    assert steps_of(runner) == steps == 3
    assert len(asker.values("step")) == shown == 3
    assert (again.adapter, again.predictions) == (first.adapter, first.predictions)
    assert (first.report["known"], again.report["known"]) == (False, True)
    assert again.report == first.report | {"known": True}
    assert again.before == first.before != again.predictions
    assert asker.now(inputs=["zz"]).before is None
    one, *others = asker.values("receipt")
    assert others == [one, one]
    gauges = runner.gauges()
    assert (gauges["adaptations_run"], gauges["adaptations_known"]) == (1, 2)


def test_rows_in_another_form_and_another_budget_are_the_same_request(runner, asker, tmp_path):
    first = asker.now()
    rows = [{"text": text, "label": label} for label, texts in LOW_HIGH.items() for text in texts]
    (tmp_path / "rows").write_text(json.dumps(rows))
    recipe = Recipe(max_steps=3, learning_rate=0.02, budget_seconds=50.0)
    for sent in ({"examples": rows}, {"examples": "", "examples_file": tmp_path / "rows"}):
        again = asker.now(recipe=recipe, **sent)
        assert again.adapter == first.adapter
        assert again.report["known"] is True


@pytest.mark.parametrize(
    "other",
    [
        {"recipe": Recipe(max_steps=3, learning_rate=0.02, seed=1)},
        {"recipe": Recipe(max_steps=2, learning_rate=0.02)},
        {"examples": EXAMPLES.replace("aa", "ad")},
    ],
)
def test_another_request_runs(runner, asker, other):
    asker.now()
    assert asker.now(**other).report["known"] is False


def test_another_owner_runs_and_gets_an_adapter_of_its_own(runner):
    first = Asker(runner, "ann").now()
    again = Asker(runner, "bob").now()
    assert again.report["known"] is False
    assert runner.store.known(again.adapter, "bob").owner == "bob"
    runner.store.remove(first.adapter, "ann")
    assert Asker(runner, "bob").now().report["known"] is True
    assert Asker(runner, "ann").now().report["known"] is False


def test_it_is_found_again_after_a_restart(runner, asker, make_runner):
    first = asker.now()
    runner.close()
    restarted = make_runner(Counting())
    again = Asker(restarted).now()
    assert (again.adapter, again.predictions) == (first.adapter, first.predictions)
    assert again.report["known"] is True
    assert steps_of(restarted) == 0


def test_a_changed_task_costs_the_hit_and_not_the_adapter(runner, asker, make_runner):
    first = asker.now()
    runner.close()
    changed = Counting()
    changed.rank = 4
    restarted = make_runner(changed)
    assert Asker(restarted).now().report["known"] is False
    named = Asker(restarted).now(examples="", adapter=first.adapter)
    assert named.predictions == first.predictions


def test_a_deleted_adapter_is_known_no_more(runner, asker):
    first = asker.now()
    runner.adapters.remove("", first.adapter)
    assert list(runner.settings.weights_dir.rglob("decisions/*")) == []
    again = asker.now()
    assert (again.adapter, again.report["known"]) == (first.adapter, False)


def test_an_adapter_whose_file_is_gone_is_made_again(runner, asker, make_runner):
    first = asker.now()
    runner.close()
    (runner.settings.weights_dir / "adapters" / f"{first.adapter}.safetensors").unlink()
    again = Asker(make_runner(Counting())).now()
    assert (again.adapter, again.report["known"]) == (first.adapter, False)


def test_named_adapters_are_known_too(runner, asker):
    first = asker.now()
    more = json.dumps({"high": ["yd"], "low": ["ad"]})
    second = asker.now(more, adapter=first.adapter)
    again = asker.now(more, adapter=first.adapter)
    assert (again.adapter, again.report["known"]) == (second.adapter, True)
    assert asker.now(more).report["known"] is False


def gate(monkeypatch, at):
    """Hold every adaptation at a step, between two ticks, until the event is set."""
    reached, opened = threading.Event(), threading.Event()
    own = LoadedModel.adapting

    def adapting(self, *args, **named):
        work, steps = own(self, *args, **named), 0
        while steps < at:
            progress = next(work)
            steps += isinstance(progress, Step)
            yield progress
        reached.set()
        while not opened.is_set():
            yield None
        return (yield from work)

    monkeypatch.setattr(LoadedModel, "adapting", adapting)
    return reached, opened


async def reached_by(event):
    await asyncio.to_thread(event.wait, 20)
    assert event.is_set()


def test_at_the_same_moment_it_runs_once_and_all_follow(runner, monkeypatch):
    reached, opened = gate(monkeypatch, at=2)
    askers = [Asker(runner) for _ in range(5)]

    async def asked():
        tasks = [asyncio.create_task(each.ask()) for each in askers[:4]]
        await reached_by(reached)
        late = asyncio.create_task(askers[4].ask())
        while len(askers[4].values("step")) < 2:
            await asyncio.sleep(0)
        opened.set()
        return await asyncio.gather(*tasks, late)

    answers = asyncio.run(asked())
    assert steps_of(runner) == 3
    assert len({each.adapter for each in answers}) == 1
    assert [each.values("step") for each in askers] == [[1, 2, 3]] * 5
    assert [each.report["known"] for each in answers] == [False] * 5


def test_log_lines_of_steps_already_taken_are_for_who_comes_late_too(runner, monkeypatch, capsys):
    reached, opened = gate(monkeypatch, at=3)

    async def asked():
        first, late = asyncio.create_task(Asker(runner).ask()), Asker(runner)
        await reached_by(reached)
        second = asyncio.create_task(late.ask())
        while len(late.values("step")) < 3:
            await asyncio.sleep(0)
        opened.set()
        await asyncio.gather(first, second)

    asyncio.run(asked())
    printed = capsys.readouterr().out
    assert [printed.count(f"step {number}/3") for number in (1, 2, 3)] == [2, 2, 2]


def test_a_cancel_stops_nobody_else_and_the_last_one_stops_it(runner, monkeypatch):
    reached, opened = gate(monkeypatch, at=1)

    async def asked():
        askers = [Asker(runner) for _ in range(3)]
        tasks = [asyncio.create_task(asker.ask()) for asker in askers]
        await reached_by(reached)
        while not all(asker.values("step") for asker in askers):  # all follow the run
            await asyncio.sleep(0)
        for task in tasks[:2]:
            task.cancel()
        await asyncio.wait(tasks[:2])
        opened.set()
        return await tasks[2]

    assert asyncio.run(asked()).report["steps"] == 3
    assert steps_of(runner) == 3


def test_when_all_have_left_it_stops_and_nothing_is_kept(runner, monkeypatch):
    reached, _ = gate(monkeypatch, at=1)

    async def asked():
        tasks = [asyncio.create_task(Asker(runner).ask()) for _ in range(3)]
        await reached_by(reached)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    asyncio.run(asked())
    assert jobs_left(runner) == 0
    assert steps_of(runner) == 1
    assert [*runner.settings.weights_dir.rglob("*.*")] == []


def test_it_fails_for_all_with_the_same_error_and_is_not_kept(runner, asker):
    def spoil(losses):
        return losses * float("nan")

    runner.task.fault = spoil

    async def asked():
        tasks = [asyncio.create_task(Asker(runner).ask()) for _ in range(3)]
        return await asyncio.gather(*tasks, return_exceptions=True)

    errors = asyncio.run(asked())
    assert {type(error) for error in errors} == {NotFiniteError}
    assert len({str(error) for error in errors}) == 1
    runner.task.fault = None
    assert asker.now().report["known"] is False


CUT = Recipe(max_steps=30, learning_rate=0.02, budget_seconds=0.001)
WHOLE = Recipe(max_steps=30, learning_rate=0.02)


def test_what_a_budget_cut_short_goes_on_to_the_end(runner, asker, make_runner, tmp_path):
    whole = Asker(make_runner(Counting(), weights_dir=tmp_path / "other")).now(recipe=WHOLE)
    cut = asker.now(recipe=CUT)
    taken = cut.report["steps"]
    assert (cut.report["stop_reason"], taken < 30) == ("budget_seconds", True)
    assert runner.store.known(cut.adapter, "").recipe["steps"] == taken
    assert len(list((tmp_path / "weights" / "checkpoints").iterdir())) == 1
    asker.metrics.clear()
    done = asker.now(recipe=WHOLE)
    assert asker.values("step") == [*range(taken + 1, 31)]
    assert steps_of(runner) == 30
    assert (done.adapter, done.report["steps"]) == (whole.adapter, 30)
    assert done.report["losses"] == whole.report["losses"]
    assert list((tmp_path / "weights" / "checkpoints").iterdir()) == []
    assert asker.now(recipe=CUT).adapter == whole.adapter
    assert runner.store.get(cut.adapter).id == cut.adapter


def test_each_call_has_its_budget_and_takes_a_step_at_least(runner, asker):
    taken = [asker.now(recipe=CUT).report["steps"] for _ in range(3)]
    assert taken == sorted(set(taken))


def test_a_cut_run_with_held_out_examples_is_as_one_that_was_not_cut(
    runner, asker, make_runner, tmp_path
):
    rows = json.dumps({"low": [*"abcdefg"], "high": [*"tuvwxyz"]})
    values: dict[str, Any] = {"max_steps": 12, "learning_rate": 0.05, "hold_out": 0.3}
    whole = Asker(make_runner(Counting(), weights_dir=tmp_path / "other"))
    expected = whole.now(rows, Recipe(**values))
    done = asker.now(rows, Recipe(**values, budget_seconds=0.001))
    for _ in range(12):
        done = asker.now(rows, Recipe(**values, budget_seconds=0.001))
    assert done.adapter == expected.adapter
    assert done.report["held_out_curve"] == expected.report["held_out_curve"]


def test_the_state_of_a_cut_run_goes_with_its_adapter(runner, asker, tmp_path):
    cut = asker.now(recipe=CUT)
    runner.adapters.remove("", cut.adapter)
    assert list((tmp_path / "weights" / "checkpoints").iterdir()) == []
    asker.metrics.clear()
    asker.now(recipe=WHOLE)
    assert asker.values("step")[0] == 1


MORE = json.dumps(LOW_HIGH | {"low": [*LOW_HIGH["low"], "ad"]})
NEW_LABEL = json.dumps(LOW_HIGH | {"mid": ["ma", "mb"]})


@pytest.mark.parametrize(("rows", "labels"), [(MORE, 2), (NEW_LABEL, 3)])
def test_added_examples_start_from_the_known_sets_adapter(runner, asker, rows, labels):
    first = asker.now()
    more = asker.now(rows)
    assert more.report["started_from"] == first.adapter
    assert more.before is not None
    assert runner.store.known(more.adapter, "").parent == first.adapter
    adapter = runner.store.get(more.adapter)
    assert len(adapter.labels) == labels
    named = asker.now(rows, adapter=first.adapter)
    assert named.adapter == more.adapter
    again = asker.now(rows)
    assert (again.adapter, again.report["known"]) == (more.adapter, True)


def test_fresh_begins_anew_and_is_known_apart(runner, asker, make_runner, tmp_path):
    alone = Asker(make_runner(Counting(), weights_dir=tmp_path / "other")).now(MORE)
    asker.now()
    asker.now(MORE)
    fresh = asker.now(MORE, fresh=True)
    assert (fresh.adapter, fresh.report["started_from"]) == (alone.adapter, None)
    again = asker.now(MORE, fresh=True)
    assert (again.adapter, again.report["known"]) == (alone.adapter, True)


@pytest.mark.parametrize(
    "values",
    [
        {"examples": MORE, "recipe": Recipe(max_steps=2, learning_rate=0.02)},
        {"examples": MORE, "recipe": Recipe("norms", max_steps=3, learning_rate=0.02)},
        {"examples": json.dumps({"low": ["aa", "ad"], "high": ["ya"]})},
    ],
)
def test_another_recipe_or_other_examples_begin_anew(runner, asker, values):
    asker.now()
    assert asker.now(**values).report["started_from"] is None


def test_another_owners_set_is_no_start(runner):
    Asker(runner, "ann").now()
    assert Asker(runner, "bob").now(MORE).report["started_from"] is None


def test_what_has_no_canonical_form_is_never_known(make_runner):
    class Opaque(Letters):
        def example(self, row):
            example = super().example(row)
            return type(example)({example.input}, example.target)

        def encode(self, inputs):
            return super().encode([next(iter(each)) for each in inputs])

        def shortened(self, inputs):
            return ()

    runner = make_runner(Opaque())
    for _ in range(2):
        done = Asker(runner).now(inputs=[{"a"}])
        assert done.report["known"] is False
    assert list(runner.settings.weights_dir.rglob("decisions/*")) == []


def test_features_go_with_what_they_were_computed_for(runner, asker):
    features = runner.cache.kept.features
    digests = input_digests(["aa", "other"])

    def put_features(name, _value):
        if name == "adaptation.step":
            features.put("", digests, [torch.zeros(2)] * 2)

    done = asker.now(on_metric=put_features)
    runner.adapters.remove("", done.adapter)
    assert features.get("", digests[:1]) == [None]
    runner.task.fault = lambda losses: losses * float("nan")
    features.put("", digests, [torch.zeros(2)] * 2)
    with pytest.raises(AdaptationError):
        asker.now()
    assert features.get("", digests[:1]) == [None]
    assert features.get("", digests[1:]) != [None]


SETS = [json.dumps({"low": ["aa", "ab"], "high": ["ya", end]}) for end in ("yb", "yc")]


RECIPES = [
    FEW,
    Recipe(max_steps=3, learning_rate=0.02, seed=1),
    Recipe(max_steps=3, learning_rate=1.0, seed=7),
]


class Crowd:
    """Two owners who ask the same and other things, leave, fail and delete, drawn by a seed."""

    def __init__(self, runner, seed):
        self.runner, self.draw = runner, random.Random(seed)
        self.made: dict[tuple, set] = {}
        runner.task.fault = self.spoil

    def spoil(self, losses):
        return losses * float("nan") if self.draw.random() < 0.02 else losses

    async def ask(self, owner, rows, recipe, leaves):
        """Ask once; leave after so many steps, 0 for never."""
        left = asyncio.Event()

        def on_metric(name, value):
            if leaves and name == "adaptation.step" and value >= leaves:
                left.set()

        task = asyncio.create_task(
            Asker(self.runner, owner).ask(rows, recipe, on_metric, fresh=True)
        )
        if leaves:
            watch = asyncio.create_task(left.wait())
            await asyncio.wait([task, watch], return_when=asyncio.FIRST_COMPLETED)
            watch.cancel()
            task.cancel()
        done: Any = (await asyncio.gather(task, return_exceptions=True))[0]
        if isinstance(done, AdaptationError | asyncio.CancelledError):
            return
        assert not isinstance(done, BaseException), done
        self.made.setdefault((rows, recipe.seed), set()).add(done.adapter)
        if self.draw.random() < 0.2:
            with contextlib.suppress(AdapterNotFound):  # another request of this owner was first
                self.runner.store.remove(done.adapter, owner)

    async def ask_often(self):
        """Six times eight requests at once."""
        draw = self.draw
        for _ in range(6):
            owners = draw.choices(["ann", "bob"], k=8)
            rows, recipes = draw.choices(SETS, k=8), draw.choices(RECIPES, k=8)
            leaves = draw.choices([0, 0, 0, 1, 2], k=8)
            await asyncio.gather(*map(self.ask, owners, rows, recipes, leaves))


def count_running(monkeypatch):
    """How many adaptations to the same ran at the same moment, as a list that grows."""
    running, counts = dict[tuple, int](), list[int]()
    own = LoadedModel.adapting

    def adapting(self, examples, recipe, **rest):
        name = (str(examples), recipe.seed)
        running[name] = running.get(name, 0) + 1
        counts.append(running[name])
        try:
            return (yield from own(self, examples, recipe, **rest))
        finally:
            running[name] -= 1

    monkeypatch.setattr(LoadedModel, "adapting", adapting)
    return counts


@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_requests_runs_each_once_at_a_time_for_its_owner(runner, monkeypatch, seed):
    counts, crowd = count_running(monkeypatch), Crowd(runner, seed)
    asyncio.run(crowd.ask_often())
    assert jobs_left(runner) == 0
    assert max(counts) <= 2  # two owners ask for the same
    assert all(len(adapters) == 1 for adapters in crowd.made.values())
    for owner in ("ann", "bob"):
        have = {known.id for known in runner.store.describe(owner)}
        place = runner.settings.weights_dir / "adapters" / "owners" / place_of(owner)
        decided = {path.stem.rpartition("-")[2] for path in (place / "decisions").iterdir()}
        assert decided == have


def test_the_receipt_says_what_was_done(runner, asker):
    asker.now()
    (receipt,) = asker.values("receipt")
    assert receipt["recipe"]["method"] == "lora"
    assert receipt["report"]["steps"] == 3
    assert receipt["base"] == {"before": runner.base, "after": runner.base}
    assert receipt["examples"]["count"] == 6
    assert receipt["adapter"]["digest"].startswith(receipt["adapter"]["id"])
    assert receipt["started_from"] is None
    assert receipt["versions"]["torch"] == torch.__version__
    assert "signature" not in receipt


@pytest.mark.usefixtures("cublas_workspace")
def test_a_known_request_is_answered_as_it_asks_to_be(make_runner, monkeypatch):
    runner = make_runner(Counting(), deterministic=True)
    asked, predict = [], runner.predict_async
    asker = Asker(runner)
    asker.now(deterministic=True)

    async def noted(query):
        asked.append(query)
        return await predict(query)

    monkeypatch.setattr(runner, "predict_async", noted)
    assert asker.now(deterministic=True).report["known"]
    assert asker.now().report["known"]
    assert [query.deterministic for query in asked] == [True, False]
