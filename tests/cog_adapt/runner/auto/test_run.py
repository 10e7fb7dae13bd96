"""`auto` shows a closed form before any step, and answers by what is expected to be best."""

import itertools
import math
import time
from dataclasses import replace

import pytest
import torch

from cog_adapt.runner.adaptation.report import Snapshot, Step
from cog_adapt.runner.adaptation.run import adapt
from cog_adapt.runner.adaptation.start import Start
from cog_adapt.runner.auto import cross_answers as cross_answers_module
from cog_adapt.runner.auto import run as auto
from cog_adapt.runner.auto.cross_answers import cross_answers, middle
from cog_adapt.runner.auto.run import adapt_automatically, adapt_without_features
from cog_adapt.runner.config import AUTO, Recipe
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.heads.decision import (
    AVERAGE,
    BASE,
    CLOSED,
    GRADIENTS,
    MIDDLE,
    CandidateScore,
    decide,
)
from cog_adapt.runner.heads.linear_head import LinearHead
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.task.task import Task
from gradient_check.phases.replicas import Tensors
from gradient_check.tests.models import LABELS
from tests.cog_adapt.models import Images
from tests.cog_adapt.models import examples as examples_of
from tests.cog_adapt.runner.featured import (
    FEW_STEPS,
    Featured,
    Measured,
    Unnamed,
    drained,
    given,
    guessed,
    loaded,
    separated,
)

CLEAR = separated(30)


@pytest.fixture(scope="module")
def model():
    return loaded(Featured())


def run(model, examples=CLEAR, recipe=FEW_STEPS):
    return drained(model.adapting(examples, recipe))


def kinds(progress):
    return [type(each) for each in progress]


def chosen_by(monkeypatch, name):
    """Let a candidate be found best, whatever it is worth."""

    def decided(candidates, metric, count=math.inf):
        best = CandidateScore(-math.inf, 1.0, 0.0)
        found = {**candidates, name: best} if name in candidates else candidates
        return decide(found, metric)

    monkeypatch.setattr(auto, "decide", decided)


def noted_starts(monkeypatch):
    """What each adaptation on all examples begins with."""
    starts = []

    def noted(start):
        starts.append(start)
        return adapt(start)

    monkeypatch.setattr(auto, "adapt_within_bounds", noted)
    return starts


def accuracy(model, adapter, examples):
    query = Query([each.input for each in examples], adapter, () if adapter else LABELS)
    rows = finished(model.predictions.part(query).working())
    labels = adapter.labels if adapter else LABELS
    guesses = [labels[row.index(max(row))] for row in rows]
    return sum(g == e.target for g, e in zip(guesses, examples, strict=True)) / len(examples)


def test_the_closed_form_comes_before_any_step(model, monkeypatch):
    chosen_by(monkeypatch, GRADIENTS)
    progress, _ = run(model)
    assert kinds(progress) == [Snapshot] + [Step] * 6
    early = progress[0]
    assert early.labels == LABELS
    assert early.tensors.keys() == {"head.weight", "head.bias"}
    assert early.decision.candidates.keys() == {BASE, CLOSED}


@pytest.mark.parametrize("chosen", [CLOSED, GRADIENTS])
def test_rows_that_look_wrongly_labelled_are_named(model, monkeypatch, chosen):
    chosen_by(monkeypatch, chosen)
    rows, wrong = separated(60), range(3, 60, 10)
    for place in wrong:
        others = [label for label in LABELS if label != rows[place].target]
        rows[place] = replace(rows[place], target=others[0])
    _, done = run(model, rows)
    suspects = done.report.to_json()["decision"]["suspects"]
    assert sorted(each["row"] - 1 for each in suspects) == [*wrong]
    assert all(each["label"] == rows[each["row"] - 1].target for each in suspects)
    _, clear = run(model)
    assert "suspects" not in clear.report.to_json()["decision"]


def test_labels_that_lie_apart_are_learned(model):
    progress, done = run(model)
    decision = done.report.decision
    assert decision.chosen != BASE
    assert decision.after.loss < decision.before.loss
    assert done.adapter.labels == LABELS
    assert done.report.score_after == decision.after.score > decision.before.score
    assert decision.sentence.startswith("expected accuracy about")
    unseen = separated(60, seed=9)
    assert accuracy(model, done.adapter, unseen) > 0.9 > accuracy(model, None, unseen)


@pytest.mark.parametrize("seed", [0, 1, 4])
def test_where_nothing_can_be_learned_the_base_answers(seed):
    """One set of chance in five has a pattern that holds for its left-out examples too."""
    _, done = run(loaded(Unnamed()), guessed(24, seed))
    assert done.adapter is None
    assert done.report.decision.chosen == BASE
    assert (done.report.method, done.report.stop_reason) == ("base", "decided")
    assert done.report.decision.after.loss == pytest.approx(math.log(3), abs=1e-3)
    assert done.report.steps == ()


def test_where_the_closed_form_wins_it_answers_without_a_step(model, monkeypatch):
    chosen_by(monkeypatch, CLOSED)
    progress, done = run(model)
    assert kinds(progress) == [Snapshot]
    assert done.report.method == done.adapter.method == "head"
    assert done.report.stop_reason == "decided"
    assert torch.equal(done.adapter.tensors["head.weight"], progress[0].tensors["head.weight"])


@pytest.mark.parametrize("name", [GRADIENTS, MIDDLE])
def test_gradients_answer_calibrated_on_what_they_had_not_seen(model, monkeypatch, name):
    chosen_by(monkeypatch, name)
    found = given(model, CLEAR, FEW_STEPS, 0.0)
    form = found.objective.fit(found.features, torch.arange(len(CLEAR)))
    answered = finished(cross_answers(found, found.objective.wrong_share(form)))
    runs: list[tuple[Start, Tensors]] = []

    def noted(start):
        tensors, report = yield from real(start)
        runs.append((start, tensors))
        return tensors, report

    real = adapt
    monkeypatch.setattr(auto, "adapt_within_bounds", noted)
    _, outcome = drained(adapt_automatically(found))
    ((start, tensors),) = runs
    assert len(start.data.examples) == len(CLEAR)
    wanted = middle(start.trained.tensors, tensors) if name == MIDDLE else tensors
    head = LinearHead(wanted["head.weight"], wanted["head.bias"])
    features = found.features
    calibration = found.objective.calibration_of_all(answered.calibration(found, name))
    expected = calibration(head(features))
    given_head = LinearHead(outcome.tensors["head.weight"], outcome.tensors["head.bias"])
    torch.testing.assert_close(given_head(features), expected.float(), rtol=1e-4, atol=1e-4)
    assert torch.equal(outcome.tensors["fc.lora_b"], wanted["fc.lora_b"])
    assert outcome.report.method == "lora"
    assert outcome.report.decision.chosen == name


def test_few_examples_are_answered_by_the_average(model):
    """One adapter: steps' tensors below the head, and the average of two heads, calibrated."""
    few = separated(12)
    found = given(model, few, FEW_STEPS, 0.0)
    form = found.objective.fit(found.features, torch.arange(len(few)))
    answered = finished(cross_answers(found, found.objective.wrong_share(form)))
    progress, outcome = drained(adapt_automatically(found))
    assert kinds(progress) == [Snapshot] + [Step] * 3  # of six
    _, (trained, _) = drained(adapt(found.last_beginning(form)))
    own = LinearHead(trained["head.weight"].cpu(), trained["head.bias"].cpu())
    outputs = 0.25 * (own(found.features) + form.head(found.features))
    expected = answered.calibration(found, AVERAGE)(outputs)
    head = LinearHead(outcome.tensors["head.weight"], outcome.tensors["head.bias"])
    torch.testing.assert_close(head(found.features), expected.float(), rtol=1e-4, atol=1e-4)
    assert torch.equal(outcome.tensors["fc.lora_b"].cpu(), trained["fc.lora_b"].cpu())
    assert outcome.report.decision.chosen == AVERAGE
    assert outcome.report.decision.candidates.keys() == {BASE, CLOSED, AVERAGE}


def test_few_examples_whose_time_is_over_get_the_closed_form_and_not_the_base(model):
    """Labels of chance: a left-out example finds the base better."""
    chance = next(
        guessed(12, seed)
        for seed in range(20)
        if base_looks_better(given(model, guessed(12, seed), FEW_STEPS, 0.0))
    )
    _, done = run(model, chance, replace(FEW_STEPS, budget_seconds=0.001))
    assert done.report.decision.chosen == CLOSED
    assert done.adapter is not None


def base_looks_better(found):
    objective, everything = found.objective, torch.arange(len(found.features))
    form = objective.fit(found.features, everything)
    base, closed = (
        objective.losses(outputs, everything).mean()
        for outputs in (objective.prior(found.features), form.left_out)
    )
    return base < closed


def beginnings(monkeypatch):
    """What each fold begins with."""
    starts = []

    def noted(start):
        starts.append(start)
        return adapt(start)

    monkeypatch.setattr(cross_answers_module, "adapt_within_bounds", noted)
    return starts


@pytest.mark.parametrize("known", [CLEAR, [each for each in CLEAR if each.target != LABELS[2]]])
def test_from_a_known_adapter_fewer_steps_begin_where_it_ended_and_folds_do_not(
    model, monkeypatch, known
):
    chosen_by(monkeypatch, GRADIENTS)
    begin = run(model, known)[1].adapter
    last, folds = noted_starts(monkeypatch), beginnings(monkeypatch)
    more = [*CLEAR, *separated(3, seed=5)]
    progress, done = drained(model.adapting(more, FEW_STEPS, begin))
    assert kinds(progress) == [Snapshot] + [Step] * 3
    (start,) = last
    assert torch.equal(start.trained.tensors["fc.lora_a"].cpu(), begin.tensors["fc.lora_a"])
    assert torch.equal(start.trained.tensors["fc.lora_b"].cpu(), begin.tensors["fc.lora_b"])
    assert begin.tensors["fc.lora_b"].any()
    assert [fold.trained.tensors["fc.lora_b"].any().item() for fold in folds] == [False, False]
    fresh = given(model, more, FEW_STEPS, 0.0)
    form = fresh.objective.fit(fresh.features, torch.arange(len(more)))
    head = fresh.last_beginning(form).trained.tensors["head.weight"]
    assert torch.equal(start.trained.tensors["head.weight"], head)
    assert done.begin is begin
    assert done.recipe.method == AUTO


def test_the_estimate_is_the_same_from_a_known_adapter_as_without_one(model, monkeypatch):
    chosen_by(monkeypatch, GRADIENTS)
    begin = run(model)[1].adapter
    one, other = (
        drained(model.adapting(CLEAR, FEW_STEPS, each))[1].report.decision for each in (begin, None)
    )
    assert one == other


def test_an_adapter_of_other_layers_is_no_start(model, monkeypatch):
    chosen_by(monkeypatch, GRADIENTS)
    other = drained(model.adapting(CLEAR, Recipe("bias", max_steps=1)))[1].adapter
    progress, done = drained(model.adapting(CLEAR, FEW_STEPS, other))
    assert kinds(progress) == [Snapshot] + [Step] * 6
    assert done.begin is None


def test_where_no_step_is_taken_nothing_is_begun_from(model, monkeypatch):
    chosen_by(monkeypatch, GRADIENTS)
    begin = run(model)[1].adapter
    chosen_by(monkeypatch, CLOSED)
    _, done = drained(model.adapting(CLEAR, FEW_STEPS, begin))
    assert (done.begin, done.report.method) == (None, "head")


def test_the_estimate_of_the_closed_form_is_that_of_all_examples_but_one(model, monkeypatch):
    found = given(model, CLEAR, FEW_STEPS, 0.0)
    progress, outcome = drained(adapt_automatically(found))
    first = progress[0].decision
    monkeypatch.setattr(
        auto,
        "decide",
        lambda candidates, *rest: replace(decide(candidates, *rest), chosen=CLOSED),
    )
    _, outcome = drained(adapt_automatically(found))
    assert outcome.report.decision.after == first.candidates[CLOSED]
    assert outcome.report.decision.before == first.candidates[BASE]


def test_a_tiny_budget_gives_the_closed_form(model):
    progress, done = run(model, recipe=replace(FEW_STEPS, budget_seconds=0.001))
    assert kinds(progress) == [Snapshot]
    report = done.report
    assert (report.method, report.stop_reason, report.steps) == ("head", "budget_seconds", ())
    assert report.decision.chosen == CLOSED
    assert report.decision.after == report.decision.candidates[CLOSED]
    assert done.adapter.tensors.keys() == {"head.weight", "head.bias"}


def test_out_of_time_the_base_answers_where_the_closed_form_is_worse():
    found = given(loaded(Unnamed()), guessed(24), replace(FEW_STEPS, budget_seconds=1.0), 0.0)
    _, outcome = drained(adapt_automatically(found))
    assert outcome.tensors is None
    assert outcome.report.stop_reason == "budget_seconds"
    assert outcome.report.decision.chosen == BASE


def test_a_budget_that_ends_with_the_estimate_leaves_the_closed_form(model, monkeypatch):
    """Gradients were found best, and there is no time to take them on all examples."""
    chosen_by(monkeypatch, GRADIENTS)
    found = given(model, CLEAR, replace(FEW_STEPS, budget_seconds=1000.0), time.monotonic())

    def late(given, wrong_share):
        answered = yield from cross_answers(given, wrong_share)
        object.__setattr__(given, "began", -1e9)
        return answered

    monkeypatch.setattr(auto, "cross_answers", late)
    progress, outcome = drained(adapt_automatically(found))
    decision = outcome.report.decision
    assert kinds(progress) == [Snapshot]
    assert (outcome.report.method, outcome.report.stop_reason) == ("head", "budget_seconds")
    assert decision.chosen == CLOSED
    assert decision.after == progress[0].decision.candidates[CLOSED]


def test_one_example_a_label_has_no_estimate_and_takes_the_steps(model):
    progress, done = run(model, separated(3))
    assert kinds(progress) == [Snapshot] + [Step] * 6
    assert progress[0].decision.sentence.startswith("no estimate")
    assert done.report.decision.sentence.startswith("no estimate")
    assert done.report.decision.chosen == GRADIENTS
    assert done.report.score_before is None
    assert "fc.lora_b" in done.adapter.tensors
    _, plain = run(model, separated(3), replace(FEW_STEPS, method="lora"))
    for name in ("head.weight", "head.bias"):
        scale = 1.2 * (2 / 3) ** 2  # the stated one for three labels, as there is none to fit
        usual = scale * plain.adapter.tensors[name]
        torch.testing.assert_close(done.adapter.tensors[name], usual)


@pytest.mark.parametrize(("task", "begins_closed"), [(Featured(), False), (Unnamed(), True)])
def test_without_an_estimate_steps_begin_where_the_names_say_something(
    task, begins_closed, monkeypatch
):
    found = given(loaded(task), separated(3), FEW_STEPS, 0.0)
    starts = noted_starts(monkeypatch)
    drained(adapt_automatically(found))
    everything = torch.arange(3)
    form = found.objective.fit(found.features, everything)
    head = found.objective.begin(found.features, everything, form)
    begun = found.objective.prior if not begins_closed else head
    assert torch.equal(starts[0].trained.tensors["head.weight"].cpu(), begun.weight)


def test_without_an_estimate_the_steps_have_what_is_left_of_the_budget(model, monkeypatch):
    recipe = replace(FEW_STEPS, budget_seconds=1000.0)
    found = given(model, separated(3), recipe, time.monotonic() - 500)
    starts: list[Start] = []

    def noted(start):
        starts.append(start)
        return adapt(start)

    monkeypatch.setattr(auto, "adapt_within_bounds", noted)
    drained(adapt_automatically(found))
    left = starts[0].training.recipe.budget_seconds
    assert left is not None
    assert 400 < left <= 500


def test_no_more_steps_are_taken_than_asked_for(model, monkeypatch):
    chosen_by(monkeypatch, GRADIENTS)
    for steps in (1, 5):
        _, done = run(model, recipe=replace(FEW_STEPS, max_steps=steps))
        assert len(done.report.steps) == steps


@pytest.mark.parametrize("examples", [CLEAR, separated(3)])
def test_the_same_seed_gives_the_same_adapter_bit_for_bit(model, monkeypatch, examples):
    chosen_by(monkeypatch, GRADIENTS)
    recipe = replace(FEW_STEPS, seed=4)
    first, second = (run(model, examples, recipe)[1] for _ in range(2))
    assert first.adapter.id == second.adapter.id
    assert first.report.decision == second.report.decision
    other = run(model, examples, replace(recipe, seed=5))[1]
    assert other.adapter.id != first.adapter.id


def test_the_base_stays_as_it_was(model):
    before = {name: tensor.clone() for name, tensor in model.base.module.state_dict().items()}
    run(model)
    list(itertools.islice(model.adapting(CLEAR, FEW_STEPS), 4))  # dropped under way
    assert all(torch.equal(before[n], t) for n, t in model.base.module.state_dict().items())
    assert model.damage == ()


def test_hold_out_is_refused_in_words(model):
    with pytest.raises(InputError, match="hold_out is 0.1"):
        run(model, recipe=replace(FEW_STEPS, hold_out=0.1))


def test_numbers_have_an_estimate_of_their_variance():
    model = loaded(Measured())
    progress, done = run(model, examples_of("regression", 48))
    decision = done.report.decision
    assert kinds(progress)[0] is Snapshot
    assert decision.metric == "R²"
    assert decision.chosen != BASE
    assert decision.before.score < 0.3 < 0.8 < decision.after.score
    unseen = examples_of("regression", 60, seed=5)
    query = Query([each.input for each in unseen], done.adapter)
    answers = torch.tensor(finished(model.predictions.part(query).working()))
    targets = torch.tensor([each.target for each in unseen])
    explained = 1 - (answers - targets).square().mean() / targets.var()
    assert explained > 0.7


class Particular(Measured):
    """A loss that takes its targets in the shape of `encode_targets` alone."""

    def loss(self, module, batch, targets):
        assert targets.shape == (len(batch["x"]),)
        return super().loss(module, batch, targets)


def test_the_loss_of_numbers_always_gets_its_own_targets():
    _, done = run(loaded(Particular()), examples_of("regression", 48))
    assert done.report.decision.metric == "R²"


class Unfeatured(Measured):
    """Numbers, from neither features nor a start."""

    features, start = Task.features, Task.start


def test_a_task_without_features_has_its_own_method_and_the_reason():
    progress, done = run(loaded(Unfeatured()), examples_of("regression", 6))
    assert kinds(progress) == [Step] * 6
    assert done.report.method == done.adapter.method == "lora"
    assert "Unfeatured has no head that can be fitted" in done.report.decision.why
    assert done.report.decision.sentence.startswith("no estimate")


@pytest.mark.parametrize(
    ("count", "hold_out", "held"), [(24, 0, True), (15, 0, False), (15, 0.2, True)]
)
def test_without_features_enough_examples_are_stopped_early(count, hold_out, held):
    start = loaded(Images()).start(
        examples_of("images", count), Recipe("lora", max_steps=2, hold_out=hold_out)
    )
    _, outcome = drained(adapt_without_features(start))
    assert (outcome.report.held_out_examples > 0) == held
    assert (outcome.report.score_after is not None) == held


def test_a_wrong_label_counts_less_in_the_steps(model, monkeypatch):
    chosen_by(monkeypatch, GRADIENTS)
    spoiled = [Example(CLEAR[0].input, "high"), *separated(24)[1:]]
    found = given(model, spoiled, FEW_STEPS, 0.0)
    starts = noted_starts(monkeypatch)
    drained(adapt_automatically(found))
    weights = starts[0].data.weights
    assert weights[0] < 0.3 * min(weights[1:])


def test_auto_is_what_the_recipe_used(model):
    _, done = run(model, recipe=replace(FEW_STEPS, learning_rate=None))
    assert done.recipe.method == AUTO
    assert done.recipe.learning_rate is None


class OtherFeatures(Featured):
    """Gives features that its head never sees."""

    def features(self, module, batch):
        return module.trunk(**batch) + 1.0


class Squared(Featured):
    """Has another loss than the cross-entropy of its head's outputs."""

    def loss(self, module, batch, targets):
        return super().loss(module, batch, targets).square()


@pytest.mark.parametrize("task", [OtherFeatures, Squared])
def test_a_head_that_is_not_what_the_task_says_is_not_fitted(task):
    progress, done = run(loaded(task()))
    assert Snapshot not in kinds(progress)
    assert "has no head that can be fitted" in done.report.decision.why


def test_a_label_without_examples_has_its_prior_alone(model):
    some = [each for each in CLEAR if each.target != LABELS[-1]]
    found = given(model, some, FEW_STEPS, 0.0)
    assert found is not None
    form = found.objective.fit(found.features, torch.arange(len(found.features)))
    assert bool(torch.isfinite(form.head.weight).all())


def test_a_task_whose_own_method_is_auto_takes_steps_by_lora():
    class Own(Images):
        method = AUTO

    _, done = run(loaded(Own()), examples_of("images", 6), replace(FEW_STEPS, method=""))
    assert done.report.method == "lora"


def test_method_head_is_the_closed_form_and_takes_no_step(model):
    recipe = replace(FEW_STEPS, method="head", learning_rate=None)
    progress, done = run(model, recipe=recipe)
    first, _ = run(model)
    assert kinds(progress) == []
    assert (done.report.stop_reason, done.report.steps) == ("fitted", ())
    assert done.report.decision.chosen == CLOSED
    early = first[0]
    assert isinstance(early, Snapshot)
    for name, tensor in early.tensors.items():
        assert torch.equal(done.adapter.tensors[name], tensor)
    assert done.adapter.method == "head"


@pytest.mark.parametrize(
    "change", [{"learning_rate": 0.01}, {"hold_out": 0.3, "learning_rate": None}]
)
def test_method_head_takes_steps_where_they_are_asked_for(model, change):
    progress, done = run(model, recipe=replace(FEW_STEPS, method="head", **change))
    assert kinds(progress) == [Step] * FEW_STEPS.max_steps
    assert done.report.decision is None


class ByExamples(Featured):
    """A head that begins with what the examples say, where it sees some."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def start(self, module, labels, examples):
        self.seen.append(len(examples))
        return super().start(module, labels, examples)


def test_what_answers_unseen_examples_was_made_without_them():
    """Else the base, whose head would hold the examples, could be found best on them."""
    task = ByExamples()
    run(loaded(task))
    assert task.seen == [0]


def test_a_head_that_cannot_be_fitted_begins_with_what_the_examples_say():
    class Other(ByExamples):
        def loss(self, module, batch, targets):
            return super().loss(module, batch, targets) * 3

    task = Other()
    run(loaded(task))
    assert task.seen == [0, len(CLEAR)]


@pytest.mark.parametrize("examples", [CLEAR, guessed(30), separated(len(LABELS))])
def test_a_method_that_trains_the_head_alone_takes_no_step(examples):
    class HeadAlone(Featured):
        method = "head"

    progress, done = run(loaded(HeadAlone()), examples)
    assert kinds(progress) == [Snapshot]
    assert done.report.stop_reason == "fitted"
    decision, first = done.report.decision, progress[0].decision
    assert (decision.chosen == BASE) == (first.chosen == BASE) == (done.adapter is None)
    assert decision.chosen in (BASE, CLOSED)
    assert decision.after == first.after
