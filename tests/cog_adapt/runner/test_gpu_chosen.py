"""What the chosen device has, and what an error or an earlier run may not change there.

Everything runs on the last device while the first one is current. Skipped where there is none.
"""

import gc
import time
from collections import Counter
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from cog_adapt.runner.adaptation.start import Checkpoints
from cog_adapt.runner.adaptation.training_state import load_state, save_state
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import TaskError
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.growing_memory import generation_memory
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.inference.pace import InferencePace
from cog_adapt.runner.known.kept_examples import KeptExamples
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.selftest.run import run_self_test
from cog_adapt.server.worker.checks import read_gauges
from gradient_check.phases.float32 import Float32
from gradient_check.phases.memory import device_memory, free_memory
from gradient_check.tests.models import LABELS
from tests.cog_adapt.devices import FIRST, LAST, NEEDS_CUDA, NEEDS_TWO
from tests.cog_adapt.models import Caching, Images, Letters, examples, inputs, labels
from tests.cog_adapt.runner.featured import Featured
from tests.cog_adapt.runner.ticks import drained
from tests.cog_adapt.texts import TextBlock, TextEncoder, Texts

pytestmark = NEEDS_CUDA
LARGE = 2**26  # bytes; beside them, what anything else takes is nothing
ON_PURPOSE = "it fails on purpose"


def loaded(task, precision="fp32"):
    torch.cuda.set_device(FIRST)
    return LoadedModel(task, RunnerSettings(device=str(LAST), precision=precision))


def run(model, shape, recipe, **more):
    torch.cuda.set_device(FIRST)
    return drained(model.adapting(examples(shape, 18), recipe, **more))[1]


def answered(model, shape, adapter=None):
    query = Query(inputs(shape), adapter, () if adapter else labels(shape))
    return finished(model.predictions.part(query).working())


def unlike_streams():
    """Move the first device's stream alone, so that a swap of streams shows; return all."""
    torch.rand(3, device=FIRST)
    return streams()


def streams():
    return [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]


def are_equal(before, after):
    return all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def allocated(device=LAST):
    gc.collect()
    torch.cuda.synchronize(device)
    return torch.cuda.memory_allocated(device)


def failing_after_draws(losses):
    torch.rand(3), torch.rand(3, device=losses.device)
    raise RuntimeError(ON_PURPOSE)


def test_work_that_fails_leaves_the_random_streams_and_other_devices_alone():
    model = loaded(Letters())
    before, held = unlike_streams(), allocated(FIRST)
    torch.cuda.reset_peak_memory_stats(FIRST)
    model.task.fault = failing_after_draws
    with pytest.raises(RuntimeError, match=ON_PURPOSE):
        run(model, "letters", Recipe("all", max_steps=2))
    assert are_equal(before, streams())
    if FIRST != LAST:
        assert torch.cuda.max_memory_allocated(FIRST) == held


class Streams(Images):
    """Notes the stream that it is asked on; leaves another one, and may fail then."""

    def __init__(self):
        self.seen = []
        self.fails = True

    def predict(self, module, batch, labels, options):
        self.seen.append(torch.cuda.current_stream(LAST))
        other: Any = torch.Stream(device=LAST)
        torch.cuda.set_stream(other)
        if self.fails:
            raise RuntimeError(ON_PURPOSE)
        return super().predict(module, batch, labels, options)


@pytest.mark.parametrize("fails", [True, False])
def test_the_next_work_is_on_the_default_stream_whatever_a_task_left(make_runner, fails):
    runner = make_runner(Images(), device=str(LAST))
    task = runner.task
    task.__class__, task.seen, task.fails = Streams, [], fails
    for _ in range(3):
        with pytest.raises(TaskError, match=ON_PURPOSE) if fails else nullcontext():
            runner.predict(inputs("images"), None, labels("images"))
    assert len(task.seen) >= 3
    assert set(task.seen) == {torch.cuda.default_stream(LAST)}


class Careless(Letters):
    """Makes the device the default one, which every tensor without a place goes to."""

    def predict(self, module, batch, labels, options):
        torch.set_default_device("cuda")
        return super().predict(module, batch, labels, options)


def test_the_next_work_finds_no_default_device_that_a_task_left(make_runner):
    runner = make_runner(Careless(), device=str(LAST))
    answers = [runner.predict(inputs("letters"), None, labels("letters")) for _ in range(2)]
    assert answers[0] == answers[1]
    recipe = Recipe("lora", max_steps=2, hold_out=0.3)
    assert len(runner.adapt(examples("letters"), recipe).report.steps) == 2


@NEEDS_TWO
def test_free_memory_is_that_of_the_chosen_device():
    torch.cuda.set_device(FIRST)
    before = free_memory(LAST)
    on_first = torch.ones(LARGE // 4, device=FIRST)
    assert abs(free_memory(LAST) - before) < LARGE // 2
    on_last = torch.ones(LARGE // 4, device=LAST)
    assert before - free_memory(LAST) > LARGE // 2
    assert on_first.device != on_last.device


@NEEDS_TWO
def test_the_memory_that_a_device_has_is_that_of_the_chosen_one():
    """Two cards of one kind hide the difference; those of the stand-in have unlike memories."""
    torch.cuda.set_device(FIRST)
    whole = torch.cuda.get_device_properties(LAST).total_memory
    assert device_memory(LAST) == whole
    assert generation_memory(RunnerSettings(device=str(LAST)), LAST) == whole // 8


def test_the_gauges_count_what_every_device_holds():
    torch.cuda.set_device(FIRST)
    before = read_gauges(object()).values
    held = torch.ones(LARGE // 4, device=LAST)
    now = read_gauges(object()).values
    assert now["device_memory_bytes"] - before["device_memory_bytes"] == held.nbytes


RECIPES = [
    Recipe("all", max_steps=3, batch_size=4, hold_out=0.3),
    Recipe("lora", max_steps=3, batch_size=4, checkpointing=True),
    Recipe("auto", max_steps=3),
]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.method)
def test_a_run_that_ended_leaves_nothing_on_the_device(recipe):
    model = loaded(Letters())
    answered(model, "letters")
    before = allocated()
    done = run(model, "letters", recipe)
    assert done.report.steps or recipe.method == "auto"
    del done
    assert allocated() == before


def test_what_is_kept_of_known_examples_is_not_on_a_device():
    model, kept = loaded(Featured()), KeptExamples(2**20)
    before = [allocated(device) for device in (FIRST, LAST)]
    for count, known in ((6, 0), (12, 6)):
        own = kept.of("")
        given = (examples("images", count), Recipe("auto", max_steps=2), None, None, own)
        drained(model.adapting(*given))
        assert [allocated(device) for device in (FIRST, LAST)] == before
        assert own.found == known


class Drawing(TextBlock):
    """Draws on the device even where nothing trains."""

    def forward(self, hidden, mask):
        found, none = super().forward(hidden, mask)
        return found + 0.1 * torch.randn_like(found), none


class Drawn(Texts):
    def module(self):
        made = TextEncoder()
        for block in made.blocks:
            block.__class__ = Drawing
        return made


ROWS = [Example("abcdefghijklmnopqrst"[: 2 + n % 17], LABELS[n % 3]) for n in range(15)]


def test_a_trunk_that_draws_on_the_device_is_not_kept():
    recipe = Recipe("lora", max_steps=6, batch_size=6, blocks=1)
    report = drained(loaded(Drawn()).adapting(ROWS, recipe))[1].report
    assert "draws random numbers" in report.trunk


def test_a_batch_that_fits_the_device_is_one_part_of_a_step(monkeypatch):
    """On a CPU parts are smaller than this batch: each is a tick."""
    rows: Counter[int] = Counter()
    loss = Texts.loss

    def counting(self, module, batch, targets):
        rows[len(targets)] += torch.is_grad_enabled()
        return loss(self, module, batch, targets)

    model = loaded(Texts())
    monkeypatch.setattr(Texts, "loss", counting)
    drained(model.adapting(ROWS, Recipe("all", max_steps=2, batch_size=15)))
    assert rows[15] >= 2
    assert rows[15] == rows.total() - rows[1] - rows[2]  # a few rows are tried for the estimate


def test_a_tick_on_the_device_is_timed_by_the_clock_on_the_wall():
    """The thread sleeps while the device works, so its own time would say that all is free."""
    assert InferencePace(LAST).clock is time.monotonic


def test_attempts_that_float16_voided_are_not_taken_again_after_a_resume(tmp_path):
    model = loaded(Caching(), "fp16")
    model.task.fault = lambda losses: losses * 1e3  # the first scale is too large for it
    recipe, path = Recipe("all", max_steps=4, batch_size=4), tmp_path / "state"
    states: list[Any] = []
    whole = run(
        model, "caching", recipe, checkpoints=Checkpoints(lambda: None, states.append, 2)
    ).report
    save_state(states[0], path)
    going_on = Checkpoints(lambda: load_state(path), lambda _: None, 2)
    resumed = run(model, "caching", recipe, checkpoints=going_on).report
    assert whole.steps[0].skipped > 0
    assert [step.skipped for step in resumed.steps] == [step.skipped for step in whole.steps]


class Quick(Letters):
    """Switches TF32 on when it is loaded, as it may."""

    def load(self):
        torch.backends.cudnn.allow_tf32 = True
        torch.set_float32_matmul_precision("high")
        return super().load()


def test_a_self_test_leaves_the_streams_and_the_switches_of_tf32():
    switches = Float32.current()
    try:
        model = loaded(Quick())
        chosen, before = Float32.current(), unlike_streams()
        assert chosen.cudnn_tf32
        torch.cuda.set_device(FIRST)  # as on a thread of the user's own
        report = run_self_test(model)
        assert report.passed, report
        assert Float32.current() == chosen
        assert are_equal(before, streams())
    finally:
        switches.put_back()


def test_convolutions_repeat_from_setup_on(monkeypatch):
    for switch, wrong in (("benchmark", True), ("deterministic", False), ("allow_tf32", True)):
        monkeypatch.setattr(torch.backends.cudnn, switch, wrong)
    loaded(Images())
    assert torch.backends.cudnn.deterministic
    assert not torch.backends.cudnn.benchmark
    assert not torch.backends.cudnn.allow_tf32
