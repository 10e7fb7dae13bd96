"""An adaptation repeats bit for bit, goes on from any kept state, and stops when it is told to."""

import copy
import dataclasses
import gc
import itertools
import threading
import time
import weakref
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from cog_adapt.runner.adaptation.batches import split
from cog_adapt.runner.adaptation.report import Snapshot, Step
from cog_adapt.runner.adaptation.run import adapt
from cog_adapt.runner.adaptation.start import Checkpoints, adamw, encode_examples, example_loss
from cog_adapt.runner.config import METHODS, Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import AdaptationError, InputError, ModeError, StoreError
from cog_adapt.runner.model.loaded_model import LoadedModel
from gradient_check.phases.checkpointing import recompute_blocks
from gradient_check.phases.gradient_step import GradientStep
from gradient_check.phases.replicas import modules_in_training, training_replica
from gradient_check.tests.states import process_state
from tests.cog_adapt.conftest import jobs_left
from tests.cog_adapt.devices import DEVICE
from tests.cog_adapt.models import NOTHING, SHAPES, examples, inputs, labels
from tests.cog_adapt.runner.ticks import drained

FAST = 0.02


@pytest.fixture(scope="module")
def loaded():
    """Each small model, loaded once on this thread: its methods are the model thread's."""
    settings = RunnerSettings(device=DEVICE, precision="fp32")
    return {name: LoadedModel(task(), settings) for name, task in SHAPES.items()}


def run(loaded, shape, recipe, count=12, **start):
    model = loaded[shape]
    return drained(model.adapting(examples(shape, count), recipe, **start))[1]


def losses(done):
    return [step.loss for step in done.report.steps]


def usable_methods(shape):
    return [method for method in METHODS if (shape, method) not in NOTHING]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_seed_gives_the_same_bits(loaded, shape):
    for method in usable_methods(shape):
        recipe = Recipe(method, max_steps=4, batch_size=5, seed=3, hold_out=0.3, learning_rate=FAST)
        first, second = (run(loaded, shape, recipe) for _ in range(2))
        assert first.adapter.id == second.adapter.id, method
        assert losses(first) == losses(second)
        assert first.report.scores == second.report.scores


@pytest.mark.parametrize("shape", SHAPES)
def test_another_seed_gives_another_adapter(loaded, shape):
    ids = {
        run(loaded, shape, Recipe(max_steps=3, batch_size=5, seed=seed)).adapter.id
        for seed in range(4)
    }
    assert len(ids) == 4


def test_the_same_seed_gives_the_same_bits_while_others_work(make_runner):
    """Dropout draws from the process's one stream; each step has it to itself."""
    runner = make_runner(SHAPES["images"]())
    recipe = Recipe("all", max_steps=12, batch_size=5, seed=3, learning_rate=FAST)
    alone = runner.adapt(examples("images", 12), recipe)
    stop = threading.Event()

    def disturb(number):
        for seed in itertools.count(number * 1000):
            if stop.is_set():
                return
            runner.adapt(examples("images", 6), Recipe(max_steps=2, seed=seed))
            runner.predict(inputs("images"), None, labels("images"))

    threads = [threading.Thread(target=disturb, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            again = runner.adapt(examples("images", 12), recipe)
            assert again.adapter.id == alone.adapter.id
            assert losses(again) == losses(alone)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("shape", SHAPES)
def test_the_loss_falls(loaded, shape):
    done = run(loaded, shape, Recipe("all", max_steps=60, learning_rate=FAST))
    assert losses(done)[-1] < 0.5 * losses(done)[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_streams_of_the_process_stay_where_they_were(loaded, shape):
    torch.rand(1)
    before = process_state()
    run(loaded, shape, Recipe("all", max_steps=3, hold_out=0.3))
    assert process_state() == before


def test_dropout_acts_and_repeats(loaded):
    model = loaded["images"]
    recipe = Recipe("all", max_steps=1, batch_size=4)
    start = model.start(examples("images", 4), recipe)
    replica = training_replica(start.trained.template, start.trained.tensors)
    make = adamw(recipe, FAST)
    training = modules_in_training(replica)
    step = GradientStep(replica, example_loss(start.task), make, start.training.precision, training)
    batch = encode_examples(
        start.task, start.data.examples, start.data.labels, start.training.precision.device
    )
    drawn = [step.forward(batch, seed).item() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_every_step_is_reported_in_turn(loaded):
    recipe = Recipe(max_steps=4, hold_out=0.3, batch_size=2, learning_rate=0.1)
    progress, done = drained(loaded["caching"].adapting(examples("caching", 18), recipe))
    steps = [step for step in progress if isinstance(step, Step)]
    assert steps == list(done.report.steps)
    assert [step.number for step in steps] == [1, 2, 3, 4]
    assert {step.of for step in steps} == {4}
    assert [step.learning_rate for step in steps] == pytest.approx([0.1, 0.075, 0.05, 0.025])
    assert None in progress  # held-out batches are ticks of their own
    assert done.report.stop_reason == "max_steps"


def test_the_rate_that_is_reported_is_the_one_in_use(loaded):
    used = []
    handle = register_optimizer_step_pre_hook(
        lambda optimizer, *_: used.append(optimizer.param_groups[0]["lr"])
    )
    try:
        report = run(loaded, "caching", Recipe(max_steps=4, learning_rate=0.1)).report
    finally:
        handle.remove()
    assert used == [step.learning_rate for step in report.steps]
    assert len(set(used)) == 4


def test_a_budget_stops_the_run_and_returns_what_there_is(loaded, monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    done = run(loaded, "caching", Recipe(max_steps=1000, budget_seconds=20.0))
    assert done.report.stop_reason == "budget_seconds"
    assert 1 <= len(done.report.steps) < 20
    assert done.adapter.tensors


def test_the_smallest_budget_still_takes_a_step(loaded):
    done = run(loaded, "caching", Recipe(max_steps=50, budget_seconds=0.001, learning_rate=0.1))
    assert done.report.steps
    assert done.report.stop_reason == "budget_seconds"


def test_a_budget_run_scores_its_end(loaded):
    recipe = Recipe(max_steps=1000, budget_seconds=0.001, hold_out=0.3)
    report = run(loaded, "caching", recipe, count=18).report
    assert report.scores[-1].step == len(report.steps)


def scripted_scores(monkeypatch, task, row):
    """Make the held-out losses follow a script; return the trained tensors of each scoring."""
    script, found, loss = iter(row), [], task.loss

    def scripted(module, batch, targets):
        if torch.is_grad_enabled():
            return loss(module, batch, targets)
        trained = {n: p for n, p in module.named_parameters() if p.requires_grad}
        found.append({n: p.detach().cpu().clone() for n, p in trained.items()})
        return torch.full((len(targets),), next(script))

    monkeypatch.setattr(task, "loss", scripted)
    monkeypatch.setattr(task, "score", lambda module, batch, targets: torch.zeros(len(targets)))
    return found


def test_the_best_by_held_out_loss_is_returned_and_not_the_last(loaded, monkeypatch):
    recipe = Recipe("head", max_steps=5, hold_out=0.3, batch_size=64, learning_rate=0.1)
    task = loaded["caching"].task
    found = scripted_scores(monkeypatch, task, [5.0, 4.0, 1.0, 2.0, 1.0, 3.0])
    done = run(loaded, "caching", recipe, count=18)
    assert done.report.best_step == 2  # the earlier of two equal ones
    assert [score.loss for score in done.report.scores] == [5.0, 4.0, 1.0, 2.0, 1.0, 3.0]
    for name, tensor in done.adapter.tensors.items():
        assert torch.equal(tensor, found[2][name])
        assert not torch.equal(tensor, found[5][name])


def test_a_start_that_is_never_beaten_is_returned(loaded, monkeypatch):
    scripted_scores(monkeypatch, loaded["caching"].task, [1.0, 4.0, 4.0, 2.0])
    recipe = Recipe("head", max_steps=3, hold_out=0.3, batch_size=64)
    done = run(loaded, "caching", recipe, count=18)
    assert done.report.best_step == 0
    start = loaded["caching"].start(examples("caching", 18), recipe).trained.tensors
    assert torch.equal(done.adapter.tensors["head.weight"], start["head.weight"].cpu())


def test_without_held_out_examples_the_last_step_is_returned(loaded):
    report = run(loaded, "caching", Recipe(max_steps=5)).report
    assert report.best_step == 5
    assert report.held_out_before is None
    assert report.held_out_after is None


def test_held_out_examples_are_not_trained_on(loaded, monkeypatch):
    trained: set[tuple[float, ...]] = set()
    scored: set[tuple[float, ...]] = set()
    task = loaded["caching"].task
    loss = task.loss

    def noted(module, batch, targets):
        rows = trained if torch.is_grad_enabled() else scored
        rows.update(map(tuple, batch["x"].tolist()))
        return loss(module, batch, targets)

    monkeypatch.setattr(task, "loss", noted)
    report = run(loaded, "caching", Recipe(max_steps=2, hold_out=0.5), count=18).report
    assert report.examples + report.held_out_examples == 18
    assert report.held_out_examples == 9
    assert (len(trained), len(scored)) == (9, 9)
    assert not trained & scored


def test_a_parameter_learns_by_the_factor_of_its_first_pattern():
    task = type("Rates", (SHAPES["caching"],), {"rates": {r"head\.bias": 20.0, "head.*": 0.1}})()
    model = LoadedModel(task, RunnerSettings(device=DEVICE, precision="fp32"))
    recipe, batch = Recipe("all", max_steps=1, learning_rate=1e-4), examples("caching", 12)
    first = drained(model.starting(batch, recipe, None))[1].trained.tensors
    last = drained(model.adapting(batch, recipe))[1].adapter.tensors
    moved = {name: float((last[name] - first[name].cpu()).abs().max()) for name in first}
    # the first step of AdamW moves a number by the rate, whatever its gradient is
    assert moved.pop("head.bias") == pytest.approx(20e-4, rel=1e-2)
    assert moved.pop("head.weight") == pytest.approx(0.1e-4, rel=1e-2)
    assert [*moved.values()] == pytest.approx([1e-4] * len(moved), rel=1e-2)


def test_an_adapter_of_ema_is_the_average_of_the_steps_that_are_taken_without_it():
    model = {"caching": LoadedModel(SHAPES["caching"](), RunnerSettings(device=DEVICE))}
    recipe, batch = Recipe("all", max_steps=6, learning_rate=FAST), examples("caching", 12)
    begun = drained(model["caching"].starting(batch, recipe, None))[1].trained.tensors
    expected = {name: tensor.cpu().double() for name, tensor in begun.items()}
    for step in range(1, 7):
        now = run(model, "caching", dataclasses.replace(recipe, stop_after=step)).adapter.tensors
        kept = min(0.3, (1 + step) / (10 + step))
        expected = {n: kept * t + (1 - kept) * now[n].double() for n, t in expected.items()}
    averaged = run(model, "caching", dataclasses.replace(recipe, ema=0.3)).adapter.tensors
    for name, tensor in averaged.items():
        torch.testing.assert_close(tensor.double(), expected[name], rtol=0.0, atol=1e-6)
        assert not torch.equal(tensor, now[name])


def test_a_snapshot_on_the_way_is_what_a_run_gives_that_ends_there(loaded):
    recipe = Recipe("lora", max_steps=6, learning_rate=FAST, ema=0.3)
    shown = dataclasses.replace(recipe, previews=2)
    ticks, done = drained(loaded["caching"].adapting(examples("caching", 12), shown))
    snapshots = [tick for tick in ticks if isinstance(tick, Snapshot)]
    assert [each.expected for each in snapshots] == ["after 2 of 6 steps", "after 4 of 6 steps"]
    for each in snapshots:
        ended = run(loaded, "caching", dataclasses.replace(recipe, stop_after=each.step)).adapter
        assert (each.labels, each.method) == (ended.labels, ended.method)
        assert all(torch.equal(each.tensors[name], ended.tensors[name]) for name in ended.tensors)
    assert done.adapter.id == run(loaded, "caching", recipe).adapter.id


def test_held_out_examples_are_scored_by_the_average(loaded):
    recipe = Recipe("all", max_steps=10, hold_out=0.3, learning_rate=FAST, ema=0.95)
    done = run(loaded, "caching", recipe, count=18)
    again = dataclasses.replace(recipe, max_steps=1)
    work = loaded["caching"].adapting(examples("caching", 18), again, done.adapter)
    found = drained(work)[1].report.scores[0].loss
    assert found == pytest.approx(min(score.loss for score in done.report.scores), rel=1e-6)


@pytest.mark.parametrize(("rates", "ema"), [({}, 0.0), ({r"head\.bias": 5.0}, 0.9)])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_run_resumed_from_any_kept_state_ends_in_the_same_bits(shape, precision, rates, ema):
    task = type("Rates", (SHAPES[shape],), {"rates": rates})()
    model = LoadedModel(task, RunnerSettings(device=DEVICE, precision=precision))
    recipe = Recipe(
        "all", max_steps=6, batch_size=5, seed=1, hold_out=0.3, learning_rate=FAST, ema=ema
    )
    states: list[Any] = []
    keeping = Checkpoints(load=lambda: None, save=states.append, every=1)
    model_run = {shape: model}
    whole = run(model_run, shape, recipe, count=18, checkpoints=keeping)
    assert len(states) == 6
    for state in states:
        resumed = Checkpoints(load=partial(copy.copy, state), save=lambda _: None, every=1)
        done = run(model_run, shape, recipe, count=18, checkpoints=resumed)
        assert done.adapter.id == whole.adapter.id
        assert losses(done) == losses(whole)
        assert done.report.scores == whole.report.scores
        assert done.report.best_step == whole.report.best_step


def test_states_are_kept_at_the_asked_distance(loaded):
    states: list[Any] = []
    keeping = Checkpoints(load=lambda: None, save=states.append, every=3)
    run(loaded, "caching", Recipe(max_steps=10), checkpoints=keeping)
    assert [len(state.steps) for state in states] == [3, 6, 9]


def test_steps_go_on_while_a_state_is_written_and_the_end_waits_for_it(loaded):
    states: list[Any] = []
    written: Future[None] = Future()

    def save(state):
        states.append(state)
        return written

    keeping = Checkpoints(load=lambda: None, save=save, every=2)
    work = loaded["caching"].adapting(examples("caching"), Recipe(max_steps=6), None, keeping)
    steps = 0
    while steps < 6:
        steps += isinstance(next(work), Step)
    assert next(work) is None  # it has all its steps, and waits
    assert [len(state.steps) for state in states] == [2]
    written.set_result(None)
    _, done = drained(work)
    assert len(done.report.steps) == 6


def test_a_state_that_cannot_be_written_ends_the_run(loaded):
    failed: Future[None] = Future()
    failed.set_exception(StoreError("the disk is full"))
    keeping = Checkpoints(load=lambda: None, save=lambda _: failed, every=2)
    with pytest.raises(StoreError, match="the disk is full"):
        run(loaded, "caching", Recipe(max_steps=6), checkpoints=keeping)


@pytest.mark.parametrize("shape", ["letters", "caching", "lazy"])
def test_checkpointing_changes_no_bit(loaded, shape):
    plain = Recipe("all", max_steps=3, batch_size=5, seed=2)
    recomputed = Recipe("all", max_steps=3, batch_size=5, seed=2, checkpointing=True)
    one, other = run(loaded, shape, plain), run(loaded, shape, recomputed)
    assert losses(one) == losses(other)
    assert one.adapter.id == other.adapter.id


def test_checkpointing_recomputes_in_backward(loaded):
    model = loaded["letters"]
    start = model.start(examples("letters"), Recipe("all"))
    replica: Any = training_replica(start.trained.template, start.trained.tensors)
    calls: list[str] = []
    replica.blocks[0].register_forward_pre_hook(lambda *_: calls.append("outer"))
    replica.blocks[0].feed.register_forward_pre_hook(lambda *_: calls.append("inner"))
    recompute_blocks(replica)
    make = adamw(start.training.recipe, FAST)
    step = GradientStep(
        replica,
        example_loss(start.task),
        make,
        start.training.precision,
        modules_in_training(replica),
    )
    batch = encode_examples(
        start.task, start.data.examples, start.data.labels, start.training.precision.device
    )
    step.gradients(batch, 0)
    assert calls.count("inner") == 2
    assert all(p.grad is not None for p in replica.parameters())


def test_checkpointing_a_model_without_blocks_is_refused(loaded):
    with pytest.raises(InputError, match="no ModuleList or Sequential"):
        run(loaded, "regression", Recipe(checkpointing=True))


def spoil(model, monkeypatch, fault):
    monkeypatch.setattr(model.task, "fault", fault, raising=False)


def test_running_out_of_memory_is_told_with_a_remedy_and_the_runner_goes_on(make_runner):
    runner = make_runner(SHAPES["caching"]())
    answer = runner.predict(inputs("caching"), None, labels("caching"))
    runner.model.task.fault = lambda losses: losses + torch.empty(2**60).sum()
    with pytest.raises(AdaptationError, match="memory ran out .*smaller batch_size or rank") as e:
        runner.adapt(examples("caching"))
    assert e.value.__cause__ is not None
    runner.model.task.fault = None
    assert runner.predict(inputs("caching"), None, labels("caching")) == answer
    assert runner.adapt(examples("caching"), Recipe(max_steps=1)).report.steps
    assert jobs_left(runner) == 0


def test_an_error_of_the_task_comes_out_as_it_is(loaded, monkeypatch):
    def failing(losses):
        raise LookupError("the task's own")

    spoil(loaded["caching"], monkeypatch, failing)
    with pytest.raises(LookupError, match="the task's own"):
        run(loaded, "caching", Recipe())


def test_a_loss_that_is_not_a_number_ends_the_run(loaded, monkeypatch):
    spoil(loaded["caching"], monkeypatch, lambda losses: losses * float("nan"))
    with pytest.raises(AdaptationError, match="the loss is nan"):
        run(loaded, "caching", Recipe())


def test_a_loss_without_a_graph_ends_the_run(loaded, monkeypatch):
    spoil(loaded["caching"], monkeypatch, lambda losses: losses.detach())
    with pytest.raises(ModeError, match="the loss has no graph"):
        run(loaded, "caching", Recipe())


def test_no_mode_is_on_while_a_run_is_suspended(loaded):
    ticks = loaded["images"].adapting(examples("images", 18), Recipe(max_steps=3, hold_out=0.3))
    for _ in range(3):
        next(ticks)
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
        assert not torch.is_autocast_enabled("cpu")
    ticks.close()


def test_closing_a_run_frees_its_replica(loaded):
    model = loaded["letters"]
    replicas: Any = weakref.WeakSet()
    start = model.start(examples("letters"), Recipe(max_steps=50))
    ticks: Any = adapt(start)
    next(ticks)
    replicas.add(ticks.gi_frame.f_locals["run"].take_step.replica)
    ticks.close()
    del ticks
    gc.collect()
    assert len(replicas) == 0


def test_no_examples_are_refused(loaded):
    with pytest.raises(InputError, match="no examples"):
        run(loaded, "caching", Recipe(), count=0)


def test_going_on_from_an_adapter_begins_where_it_ended(loaded):
    first = run(loaded, "caching", Recipe(max_steps=30, learning_rate=FAST))
    again = run(loaded, "caching", Recipe(max_steps=1), begin=first.adapter)
    assert losses(again)[0] < losses(first)[0]
    assert again.adapter.labels == first.adapter.labels


def test_a_base_of_bfloat16_trains_float32_masters():
    letters: Any = SHAPES["letters"]

    class Half(letters):
        def load(self):
            return super().load().bfloat16()

    model = LoadedModel(Half(), RunnerSettings(device=DEVICE))
    assert model.base.precision.compute is torch.bfloat16
    recipe = Recipe(max_steps=20, learning_rate=1e-6)
    start = model.start(examples("letters"), recipe)
    done = drained(model.adapting(examples("letters"), recipe))[1]
    for name, tensor in done.adapter.tensors.items():
        assert tensor.dtype is torch.float32
        if name.endswith("lora_a"):
            continue  # its first gradients are zero
        assert not torch.equal(tensor, start.trained.tensors[name].cpu()), name


def test_scoring_runs_in_eval_and_leaves_the_replica_as_it_was(loaded, monkeypatch):
    model = loaded["images"]
    modes = []
    score = type(model.task).score

    def watched(self, module, batch, targets):
        modes.append((any(p.training for p in module.modules()), torch.is_grad_enabled()))
        return score(self, module, batch, targets)

    monkeypatch.setattr(type(model.task), "score", watched)
    run(loaded, "images", Recipe(max_steps=2, hold_out=0.3), count=18)
    assert modes
    assert set(modes) == {(False, False)}


@pytest.mark.parametrize(
    ("max_steps", "scored"), [(11, [0, 3, 6, 9, 11]), (10, [0, 2, 4, 6, 8, 10]), (2, [0, 1, 2])]
)
def test_held_out_examples_are_scored_at_even_distances_and_at_the_end(loaded, max_steps, scored):
    recipe = Recipe("head", max_steps=max_steps, hold_out=0.5, learning_rate=FAST)
    done = run(loaded, "images", recipe, count=18)
    assert [score.step for score in done.report.scores] == scored


def weighted(loaded, recipe, weights):
    """What an adaptation gives whose examples have these weights."""
    start = loaded["images"].start(examples("images", len(weights)), recipe)
    return drained(
        adapt(dataclasses.replace(start, data=dataclasses.replace(start.data, weights=weights)))
    )[1]


def same_tensors(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_equal_weights_change_no_bit(loaded):
    recipe = Recipe(max_steps=3, batch_size=8, hold_out=0.3, seed=2)
    plain = drained(adapt(loaded["images"].start(examples("images", 18), recipe)))[1]
    tensors, report = weighted(loaded, recipe, [2.0] * 18)
    assert same_tensors(plain[0], tensors)
    assert report.steps[-1].loss == plain[1].steps[-1].loss
    assert report.scores[0].loss == pytest.approx(plain[1].scores[0].loss, rel=1e-12)


def test_an_example_of_weight_0_is_in_its_batches_and_teaches_nothing(loaded):
    recipe = Recipe("head", max_steps=1, batch_size=6, learning_rate=FAST)
    rows = examples("images", 6)
    start = loaded["images"].start(rows, recipe)
    fewer = dataclasses.replace(
        start, data=dataclasses.replace(start.data, weights=[1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    )
    other = Example(rows[5].input, rows[0].target)
    another = fewer.with_examples([*rows[:5], other])
    (one, _), (two, _), (plain, _) = (drained(adapt(s))[1] for s in (fewer, another, start))
    assert same_tensors(one, two)
    assert not same_tensors(one, plain)


def test_held_out_examples_are_scored_by_their_weights(loaded):
    recipe = Recipe("head", max_steps=1, hold_out=0.5)
    start = loaded["images"].start(examples("images", 18), recipe)
    _, held = split(start.data.examples, recipe.hold_out, recipe.seed)
    heavy = [1.0 if i == held[0] or i not in held else 0.0 for i in range(18)]
    _, report = drained(
        adapt(dataclasses.replace(start, data=dataclasses.replace(start.data, weights=heavy)))
    )[1]
    replica = training_replica(start.trained.template, start.trained.tensors).eval()
    row = encode_examples(
        start.task,
        [start.data.examples[held[0]]],
        start.data.labels,
        start.training.precision.device,
    )
    expected = example_loss(start.task)(replica, row).item()
    assert report.scores[0].loss == pytest.approx(expected, rel=1e-6)
