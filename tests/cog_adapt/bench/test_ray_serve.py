"""The rival of the server under Ray: it learns what the runner learns; and what the rows say."""

import os
import threading
import time
from dataclasses import replace
from math import log
from statistics import fmean

import pytest

pytest.importorskip("task", reason="the shipped task is not here")

from bench.ray_serve.by_hand import KEPT, Classifier, Lesson, Question, Row
from bench.ray_serve.cold_start import rows as starts
from bench.ray_serve.one_node import cpu_seconds
from bench.ray_serve.one_page import as_markdown
from bench.ray_serve.rivals import BY_HAND, COLUMNS, OURS, rows
from bench.ray_serve.sides import LABELS, RATE, examples
from bench.ray_serve.turns import Turn
from bench.report import Report
from bench.serving_client import Tally
from cog_adapt import Example, ModelRunner, Recipe
from task import TextClassification

TEXTS = [row["text"] for row in examples()]
SEEDS = (1, 2, 3)


def loss_of(scores):
    pairs = zip(scores, examples(), strict=True)
    return -sum(log(each[row["label"]]) for each, row in pairs) / len(TEXTS)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return Classifier(tmp_path_factory.mktemp("adapters"))


@pytest.fixture(scope="module")
def lesson():
    return Lesson(
        examples=[Row(**row) for row in examples()], texts=TEXTS, steps=10, learning_rate=RATE
    )


def test_by_hand_the_same_is_learned_as_by_the_runner(classifier, lesson):
    with ModelRunner(TextClassification()) as runner:
        recipe = Recipe("lora", rank=8, max_steps=10, learning_rate=RATE)
        rows = [Example(row["text"], row["label"]) for row in examples()]
        adapters = [runner.adapt(rows, replace(recipe, seed=seed)).adapter for seed in SEEDS]
        answers = [runner.predict(TEXTS, adapter) for adapter in adapters]
    ours = fmean(loss_of([each["scores"] for each in some]) for some in answers)
    lessons = [lesson.model_copy(update={"seed": seed}) for seed in SEEDS]
    theirs = fmean(loss_of(classifier.adapt(each)["scores"]) for each in lessons)
    base = loss_of(classifier.answers([Question(texts=TEXTS, labels=LABELS)])[0])
    assert ours < base / 2
    assert theirs == pytest.approx(ours, rel=0.04)


def test_by_hand_an_adapter_is_read_again_and_deleted(classifier, lesson):
    made = classifier.adapt(lesson.model_copy(update={"steps": 1}))
    for number in range(KEPT):  # others take its place in memory
        classifier.answers([Question(texts=["a"], labels=("x", str(number)))])
    asked = Question(texts=TEXTS, adapter=made["adapter"])
    again, base = classifier.answers([asked, Question(texts=["a"], labels=LABELS)])
    assert [pytest.approx(each, abs=1e-5) for each in made["scores"]] == again
    assert len(base) == 1
    classifier.delete(made["adapter"])
    with pytest.raises(FileNotFoundError):
        classifier.answers([asked])


def test_the_time_of_threads_that_have_ended_counts():
    """A server's threads come and go, and an adaptation by hand is in one of them."""
    before = cpu_seconds(os.getpid())
    work = threading.Thread(target=burn, args=(0.3,))
    work.start()
    work.join()
    assert cpu_seconds(os.getpid()) - before > 0.2


def burn(seconds):
    while time.thread_time() < seconds:
        pass


def turn(count, cpu):
    return Turn(Tally([5.0] * count, seconds=10.0), cpu)


def test_ratios_are_to_the_rival_in_the_same_round():
    found = {("a", OURS): [turn(10, 1.0), turn(30, 3.0)], ("a", BY_HAND): [turn(20, 1.0)] * 2}
    ours, hand = rows(found)
    assert (ours["ours / by hand"].low, ours["ours / by hand"].high) == (0.5, 1.5)
    assert ours["CPU, ours / by hand"].median == 2.0
    assert "ours / by hand" not in hand


def test_work_whose_cost_was_not_measured_has_none():
    found = {("a", side): [turn(10, None)] for side in (OURS, BY_HAND)}
    page = as_markdown(Report("", COLUMNS, rows(found)), "")
    (line,) = (line for line in page.splitlines() if line.startswith(f"| a | {OURS}"))
    assert line.count("|") == len(COLUMNS) + 1
    assert line.endswith("| – | – |")


def test_a_kind_of_start_has_a_row():
    (row,) = starts({"alone": [{"/readyz": 2.0}, {"/readyz": 4.0}]})
    assert (row["start"], row["/readyz"].median) == ("alone", 3.0)
