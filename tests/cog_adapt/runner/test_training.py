"""A training gives an adapter's file, and survives being killed."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cog_adapt.runner.config import Recipe
from cog_adapt.runner.data.files import write_whole
from cog_adapt.runner.errors import InputError, StoreError
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests.training import train
from cog_adapt.runner.storage import folder
from tests.cog_adapt.models import Letters
from tests.cog_adapt.runner.featured import Unnamed, guessed

EXAMPLES = json.dumps({"low": ["aa", "ab", "ac"], "high": ["ya", "yb", "yc"]})
RECIPE = Recipe(max_steps=45, learning_rate=0.02)


made: dict[str, Any] = {}  # the metrics of the last training


class KilledError(BaseException):
    """Ends a run as SIGKILL does: nothing is tidied up."""


@pytest.fixture
def runner(make_runner):
    return make_runner(Letters())


@pytest.fixture
def steps():
    return []


def trained(
    runner,
    steps,
    recipe=RECIPE,
    examples=EXAMPLES,
    killed_at=None,
    owner="",
    end=KilledError,
    **more,
):
    made.clear()

    def record(name, value):
        made[name] = value
        if name == "adaptation.step":
            steps.append(value)
            if value == killed_at:
                raise end

    scope = SimpleNamespace(context={"owner": owner}, record_metric=record)
    try:
        return asyncio.run(train(runner, Request(examples=examples, recipe=recipe, **more), scope))
    finally:
        runner.checkpoints.writer.submit(int).result()  # the last checkpoint is written by now


def files(runner):
    found = [path for path in runner.settings.weights_dir.rglob("*") if path.is_file()]
    kept = [path for path in found if path.parent.name != "decisions"]
    return [path for path in kept if path.name != "in-use.lock"]  # shows that the runner lives


def test_it_writes_an_adapter_and_removes_its_checkpoint(runner, steps):
    done = trained(runner, steps)
    assert done.weights.parent == runner.settings.weights_dir / "adapters"
    assert done.weights.stem == done.report["adapter"]
    assert done.report["steps"] == 45
    assert made["adaptation.adapter"] == done.report["adapter"]
    assert done.report["warnings"] == []
    assert steps == [*range(1, 46)]
    kept = {done.weights, done.weights.with_suffix(".json")}
    assert {path for path in files(runner) if path.suffix != ".lock"} == kept


def test_one_that_was_killed_goes_on_when_it_is_asked_for_again(runner, steps):
    whole = trained(runner, steps)
    runner.store.remove(whole.weights.stem, "")
    with pytest.raises(KilledError):
        trained(runner, steps, killed_at=30)
    steps.clear()
    assert trained(runner, steps).weights == whole.weights
    assert steps[0] == 21


@pytest.mark.parametrize("end", [ZeroDivisionError, asyncio.CancelledError])
def test_one_that_fails_or_is_cancelled_leaves_nothing_on_disk(runner, steps, end):
    with pytest.raises(KilledError):
        trained(runner, steps, killed_at=30)
    assert len(files(runner)) == 1
    with pytest.raises(end):
        trained(runner, steps, killed_at=30, end=end)
    assert files(runner) == []


def test_what_the_task_would_choose_is_the_same_training_said_aloud(runner, steps):
    with pytest.raises(KilledError):
        trained(runner, steps, killed_at=30)
    steps.clear()
    trained(runner, steps, Recipe("lora", 8, max_steps=45, learning_rate=0.02))
    assert steps[0] == 21


@pytest.mark.parametrize(
    "other",
    [
        {"recipe": Recipe(max_steps=44, learning_rate=0.02)},
        {"examples": EXAMPLES.replace("aa", "ad")},
        {"owner": "ann"},
    ],
)
def test_another_recipe_other_examples_or_another_owner_begin_anew(runner, steps, other):
    runner.read_owner_from("owner")
    with pytest.raises(KilledError):
        trained(runner, steps, killed_at=30)
    steps.clear()
    trained(runner, steps, **other)
    assert steps[0] == 1


def test_an_owners_adapter_is_the_owners(runner, steps):
    runner.read_owner_from("owner")
    done = trained(runner, steps, owner="ann")
    assert runner.store.get(done.report["adapter"], "ann").id == done.report["adapter"]
    with pytest.raises(InputError, match="is not known here"):
        runner.store.get(done.report["adapter"], "bob")


def test_a_disk_that_was_full_when_the_run_ended_fails_a_training(runner, steps, monkeypatch):
    refused = list[Path]()

    def full_once(path, content):
        if path.suffix == ".safetensors" and not refused:
            refused.append(path)
            raise StoreError("the disk is full")
        write_whole(path, content)

    monkeypatch.setattr(folder, "write_whole", full_once)
    with pytest.raises(StoreError, match="the disk is full"):
        trained(runner, steps)


def test_a_training_from_which_nothing_can_be_learned_writes_no_adapter(make_runner, steps):
    rows = [{"input": row.input, "target": row.target} for row in guessed(24)]
    model_runner = make_runner(Unnamed())
    with pytest.raises(InputError, match="the base answers these examples best, so there is no"):
        trained(model_runner, steps, Recipe("auto", max_steps=4), json.dumps(rows))
    assert [path for path in files(model_runner) if path.suffix == ".safetensors"] == []


def test_without_examples_there_is_nothing_to_train_on(runner, steps):
    with pytest.raises(InputError, match="no examples: send `examples` or `examples_file`"):
        trained(runner, steps, examples="")


def test_what_is_remarkable_is_in_the_report_or_refused(runner, steps):
    rows = "text,label,mood\naa,low,x\nya,high,x\n"
    done = trained(runner, steps, Recipe(max_steps=1), rows)
    assert done.report["warnings"] == ["columns not used: 'mood'"]
    with pytest.raises(
        InputError, match="columns not used: 'mood'. Correct this, or leave `strict`"
    ):
        trained(runner, steps, Recipe(max_steps=1), rows, strict=True)


def test_one_whose_server_is_gone_goes_on_when_it_is_asked_for_again(runner, steps):
    gone = OSError("slot channel closed")  # what a print raises then, under Cog's own server
    with pytest.raises(OSError, match="slot channel closed"):
        trained(runner, steps, killed_at=30, end=gone)
    steps.clear()
    trained(runner, steps)
    assert steps[0] == 21
