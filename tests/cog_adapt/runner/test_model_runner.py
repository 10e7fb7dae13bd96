"""`ModelRunner`: what callers on any thread get."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
import torch

from cog_adapt.runner.adaptation.report import Step
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import (
    AdapterNotFound,
    InputError,
    SetupError,
    UnavailableError,
    WeightsError,
)
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.modules.adapters import load_adapter, save_adapter
from gradient_check.tests.models import seeded_module
from gradient_check.tests.present import present
from tests.cog_adapt.conftest import traces
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import SHAPES, Images, Letters, examples, inputs, labels

FEW = Recipe(max_steps=3, learning_rate=0.02)


def test_it_predicts_adapts_and_predicts_with_the_adapter(runner, shape):
    base = runner.predict(inputs(shape), None, labels(shape))
    done = runner.adapt(examples(shape), FEW)
    adapted = runner.predict(inputs(shape), done.adapter)
    assert adapted != base
    assert runner.predict(inputs(shape), None, labels(shape)) == base
    assert done.adapter.base == runner.base
    assert all(
        t.device.type == "cpu" and not t.requires_grad for t in done.adapter.tensors.values()
    )
    assert runner.health() == ()


def test_an_adapter_answers_the_same_after_a_trip_over_the_disk(runner, shape, tmp_path):
    done = runner.adapt(examples(shape), Recipe("all", max_steps=3, learning_rate=0.02))
    answer = runner.predict(inputs(shape), done.adapter)
    save_adapter(done.adapter, tmp_path / "a.safetensors")
    again = load_adapter(tmp_path / "a.safetensors")
    assert again.id == done.adapter.id
    assert runner.predict(inputs(shape), again) == answer


def test_an_adapter_serves_in_another_runner_of_the_same_model(make_runner):
    one, other = make_runner(Letters()), make_runner(Letters())
    done = one.adapt(examples("letters"), FEW)
    answer = one.predict(inputs("letters"), done.adapter)
    assert other.predict(inputs("letters"), done.adapter) == answer


def test_an_adapter_of_another_model_is_refused_when_it_is_loaded(make_runner, tmp_path):
    path = tmp_path / "a.safetensors"
    one, other = make_runner(Letters()), make_runner(Images())
    save_adapter(one.adapt(examples("letters"), FEW).adapter, path)
    with pytest.raises(WeightsError, match="was made on base"):
        other.predict(inputs("letters"), load_adapter(path))


def test_steps_are_reported_on_the_callers_thread_and_scorings_are_not(make_runner):
    runner = make_runner(Letters())
    seen = []
    recipe = Recipe(max_steps=4, hold_out=0.3, batch_size=4)
    done = runner.adapt(
        examples("letters", 18), recipe, lambda step: seen.append((step, threading.get_ident()))
    )
    assert [step for step, _ in seen] == list(done.report.steps)
    assert {thread for _, thread in seen} == {threading.get_ident()}


def test_a_prediction_that_arrives_during_a_step_is_answered_before_the_next(make_runner):
    runner = make_runner(Letters())
    runner.predict(inputs("letters"), None, labels("letters"))
    asked: list[Any]
    record, asked = [], []
    predict = runner.model.task.predict

    def watched(*args):
        record.append("prediction")
        return predict(*args)

    def fault(losses):
        record.append("step")
        if len(asked) < 5:
            query = Query(inputs("letters"), None, labels("letters"))
            asked.append(
                runner.scheduler.submit_short(runner.model.predictions.part(query).working())
            )
        return losses

    runner.model.task.predict, runner.model.task.fault = watched, fault
    runner.adapt(examples("letters"), Recipe(max_steps=8))
    assert record == ["step", "prediction"] * 5 + ["step"] * 4  # the first measures


@pytest.mark.parametrize("serve_mode", ["inference_mode", "no_grad"])
def test_both_ways_to_serve_give_the_same_answers_and_adapters(make_runner, shape, serve_mode):
    plain, runner = (
        make_runner(SHAPES[shape]()),
        make_runner(SHAPES[shape](), serve_mode=serve_mode),
    )
    done = runner.adapt(examples(shape), FEW)
    if shape != "lazy":  # whose weights are drawn anew in each setup
        assert done.adapter.id == plain.adapt(examples(shape), FEW).adapter.id
        assert runner.predict(inputs(shape), done.adapter) == plain.predict(
            inputs(shape), done.adapter
        )
    assert runner.health() == ()


def test_the_async_calls_give_what_the_others_give(make_runner):
    runner = make_runner(Letters())
    steps: list[Any] = []

    async def scene():
        done = await runner.submit_adaptation(examples("letters"), FEW).wait_async(steps.append)
        return done, await runner.predict_async(Query(inputs("letters"), done.adapter))

    done, answer = asyncio.run(scene())
    assert done.adapter.id == runner.adapt(examples("letters"), FEW).adapter.id
    assert answer == runner.predict(inputs("letters"), done.adapter)
    assert len([step for step in steps if isinstance(step, Step)]) == 3


def test_many_coroutines_share_it(make_runner):
    runner = make_runner(Letters())
    alone = [runner.adapt(examples("letters", seed=n), FEW).adapter.id for n in range(4)]

    async def scene():
        calls = [
            runner.submit_adaptation(examples("letters", seed=n), FEW).wait_async()
            for n in range(4)
        ]
        return [done.adapter.id for done in await asyncio.gather(*calls)]

    assert asyncio.run(scene()) == alone


def test_a_caller_inside_inference_mode_gets_the_same(make_runner):
    runner = make_runner(Letters())
    plain = runner.adapt(examples("letters"), FEW)
    answer = runner.predict(inputs("letters"), plain.adapter)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        done = runner.adapt(examples("letters"), FEW)
        assert runner.predict(inputs("letters"), done.adapter) == answer
    assert done.adapter.id == plain.adapter.id
    assert not any(t.is_inference() for t in done.adapter.tensors.values())


def test_a_refused_call_leaves_no_trace(make_runner):
    runner = make_runner(Letters())
    runner.predict(inputs("letters"), None, labels("letters"))
    before = traces(runner)
    with pytest.raises(InputError, match="is no text"):
        runner.predict([3], None, labels("letters"))
    with pytest.raises(InputError, match="no examples"):
        runner.adapt([])
    assert traces(runner) == before


def test_a_damaged_base_shows_in_its_health(make_runner):
    runner = make_runner(Letters())
    runner.adapt(examples("letters"), FEW)
    runner.model.base.module.norm.weight.data.mul_(2)
    with pytest.raises(UnavailableError, match="the base model changed"):
        runner.adapt(examples("letters"), FEW)
    assert "norm.weight" in runner.health()[0]
    with pytest.raises(UnavailableError, match="the base model changed"):
        runner.predict(inputs("letters"), None, labels("letters"))


def test_a_model_that_cannot_be_loaded_ends_its_thread():
    class Broken(Images):
        def load(self):
            raise SetupError("no weights")

    before = threading.active_count()
    with pytest.raises(SetupError, match="no weights"):
        ModelRunner(Broken(), RunnerSettings(device=DEVICE))
    assert threading.active_count() == before


def test_a_closed_runner_refuses_work():
    with ModelRunner(Images(), RunnerSettings(device=DEVICE)) as runner:
        answer = runner.predict(inputs("images"), None, labels("images"))
        assert len(answer) == 3
    with pytest.raises(UnavailableError, match="closed"):
        runner.predict(inputs("images"), None, labels("images"))
    with pytest.raises(UnavailableError, match="closed"):
        runner.adapt(examples("images"))


class AtOnce(Executor):
    """Writes a state before the next step, so that no slow disk leaves one out."""

    def submit(self, fn, /, *args, **kwargs):
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


@pytest.mark.parametrize("killed_after", [20, 40])
def test_a_run_goes_on_from_its_checkpoint_to_the_same_end(make_runner, tmp_path, killed_after):
    class KilledError(Exception):
        pass

    def on_step(step):
        if step.number == killed_after + 3:
            raise KilledError

    runner = make_runner(Letters())
    recipe = Recipe("all", max_steps=50, batch_size=4, hold_out=0.3, learning_rate=0.02)
    rows = examples("letters", 18)
    whole = runner.adapt(rows, recipe)
    path = tmp_path / "checkpoints" / "run.safetensors"
    runner.checkpoints.writer.shutdown()
    runner.checkpoints.writer = AtOnce()
    with pytest.raises(KilledError):
        runner.adapt(rows, recipe, on_step, checkpoint=path)
    assert path.exists()
    steps: list[Any] = []
    again = runner.adapt(rows, recipe, steps.append, checkpoint=path)
    assert steps[0].number > killed_after
    assert again.adapter.id == whole.adapter.id


FIRST_ADAPTATION = """
import sys
from pathlib import Path
from cog_adapt.runner.modules.adapters import load_adapter, save_adapter
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.model_runner import ModelRunner
from tests.cog_adapt.models import Letters, examples

settings = RunnerSettings(device="cpu", weights_dir=Path(sys.argv[1]))
with ModelRunner(Letters(), settings) as runner:
    level = runner.self_test().level
    before = set(sys.modules)
    runner.adapt(examples("letters"), Recipe("all", max_steps=2, hold_out=0.3, checkpointing=True))
    print(level, sorted(set(sys.modules) - before))
"""


def test_an_adaptation_imports_nothing_that_setup_has_not(tmp_path):
    """An import that is cut short leaves a half-made module behind for ever."""
    for level in ("full", "quick"):
        done = subprocess.run(
            [sys.executable, "-c", FIRST_ADAPTATION, str(tmp_path)],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[3],
            check=False,
        )
        assert done.stderr == ""
        assert done.stdout.strip() == f"{level} []"


def test_other_weights_have_another_digest(make_runner):
    class Other(Images):
        def load(self):
            return seeded_module(self.module, seed=1)

    assert make_runner(Images()).base != make_runner(Other()).base


def test_the_last_self_test_and_the_adapters_in_memory_can_be_asked_for(make_runner):
    runner = make_runner(Letters())
    assert runner.self_test_report is None
    assert runner.gauges()["adapter_cache_entries"] == 0.0
    report = runner.self_test()
    assert runner.self_test_report is report
    runner.predict(inputs("letters"), None, labels("letters"))
    assert runner.gauges()["adapter_cache_entries"] == 1.0


def test_weights_named_at_the_start_are_the_default(make_runner, tmp_path):
    adapter = make_runner(Letters()).adapt(examples("letters"), FEW).adapter
    file = tmp_path / "a.safetensors"
    file.write_bytes(adapter.to_bytes())
    with ModelRunner(Letters(), RunnerSettings(device=DEVICE), str(file)) as runner:
        assert present(runner.default).id == adapter.id
        for sees_all in (False, True):  # it answers who names none, and is nobody's to name
            with pytest.raises(AdapterNotFound):
                runner.store.get(adapter.id, "ann", sees_all=sees_all)
    assert make_runner(Letters()).default is None
    with pytest.raises(WeightsError, match="cannot be read"):
        ModelRunner(Letters(), RunnerSettings(device=DEVICE), "/nowhere/a.safetensors")


def test_adapters_are_stored_below_the_weights_folder(make_runner, tmp_path):
    runner = make_runner(Letters(), weights_dir=tmp_path / "kept")
    adapter = runner.adapt(examples("letters"), Recipe("head", max_steps=1)).adapter
    path = runner.store.put(adapter)
    assert path.parent == tmp_path / "kept" / "adapters"
    assert any(folder in path.parents for folder in runner.kept_folders())
    assert runner.self_test_report is None


def test_what_its_thread_does_can_be_asked_and_long_ticks_are_announced(make_runner, monkeypatch):
    runner = make_runner(Letters())
    beats = []
    monkeypatch.setattr(
        "cog_adapt.runner.model_runner.run_at_start",
        lambda *_: beats.append(runner.model_thread_beat()),
    )
    runner.self_test()
    assert (beats[0][0] > 0, beats[0][1]) == (True, 600.0)


def test_a_removed_adapter_leaves_the_device(make_runner):
    runner = make_runner(Letters())
    adapter = runner.adapt(examples("letters"), Recipe("head", max_steps=1)).adapter
    runner.store.put(adapter)
    runner.predict(inputs("letters"), adapter)
    assert runner.gauges()["adapters_device_bytes"] == adapter.nbytes
    runner.adapters.remove("", adapter.id)
    runner.predict(inputs("letters"), None, labels("letters"))
    assert runner.gauges()["adapter_cache_entries"] == 1.0
    runner.store.put(adapter)
    runner.close()
    runner.adapters.remove("", adapter.id)


def test_what_is_ready_for_one_owner_is_not_for_another(make_runner):
    runner = make_runner(Letters())
    for owner in ("ann", "bob", "ann"):
        query = Query(inputs("letters"), None, labels("letters"), None, owner)
        asyncio.run(runner.predict_async(query))
    assert runner.gauges()["adapters_device_misses"] == 2.0
    assert runner.gauges()["adapters_device_hits"] == 1.0


def test_an_adaptation_that_could_not_fit_is_refused_and_the_next_runs(make_runner):
    task = Letters()
    task.part_tokens = 10**6  # a batch is one part
    runner = make_runner(task, adaptation_memory_bytes=2**24)
    rows = examples("letters", 600)
    with pytest.raises(InputError, match="would need about .*ADAPTATION_MEMORY_BYTES"):
        runner.adapt([Example("abcdef", "low")] * 4096, Recipe("all", batch_size=4096))
    assert runner.adapt(rows, FEW).adapter
    assert runner.gauges()["adaptation_bytes"] == 0


def test_two_adaptations_that_do_not_fit_together_run_one_after_the_other(make_runner):
    runner = make_runner(Letters(), adaptation_memory_bytes=2**24)  # one takes half, and a little
    record: list[int] = []

    async def both():
        async def one(number):
            def on_progress(progress):
                if isinstance(progress, Step):  # the other one reports that it waits
                    record.append(number)

            return await runner.submit_adaptation(examples("letters"), FEW).wait_async(on_progress)

        return await asyncio.gather(one(0), one(1))

    first, second = asyncio.run(both())
    assert first.adapter.id == second.adapter.id
    assert record == sorted(record)
    assert len(record) == 2 * FEW.max_steps
    assert runner.gauges()["adaptations_waiting"] == 0
