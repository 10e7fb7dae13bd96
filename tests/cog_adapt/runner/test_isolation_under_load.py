"""Answers given under load are, bit for bit, the answers given alone."""

import itertools
import random
import threading

import pytest

from cog_adapt.runner.config import Recipe
from tests.cog_adapt.conftest import jobs_left, traces
from tests.cog_adapt.models import SHAPES, examples, inputs, labels

ANSWERS = 1_000  # for each model
CALLERS = 4
TRAINERS = 2


def questions(runner, shape):
    """Inputs with the base or one of two adapters, and their answers alone."""
    recipes = [Recipe("lora", max_steps=5, seed=1), Recipe("all", max_steps=5, seed=2)]
    adapters = [runner.adapt(examples(shape), recipe).adapter for recipe in recipes]
    asked = []
    for adapter, seed in itertools.product([None, *adapters], range(4)):
        batch = inputs(shape, count=1 + seed * 15, seed=seed)  # up to two ticks each
        asked.append((batch, adapter, () if adapter else labels(shape)))
    return [(question, runner.predict(*question)) for question in asked]


class Load:
    """Callers that ask and trainers that adapt, all at once, until every caller is done."""

    def __init__(self, runner, shape, asked, recipe):
        self.runner, self.shape, self.asked, self.recipe = runner, shape, asked, recipe
        self.right: list[bool] = []
        self.adapted: list[str] = []
        self.stop = threading.Event()

    def ask(self, number):
        draw = random.Random(number)
        for _ in range(ANSWERS // CALLERS):
            question, alone = draw.choice(self.asked)
            self.right.append(self.runner.predict(*question) == alone)

    def adapt(self):
        while not self.stop.is_set():
            done = self.runner.adapt(examples(self.shape), self.recipe)
            self.adapted.append(done.adapter.id)

    def run(self):
        callers = [threading.Thread(target=self.ask, args=(n,)) for n in range(CALLERS)]
        trainers = [threading.Thread(target=self.adapt) for _ in range(TRAINERS)]
        for thread in [*callers, *trainers]:
            thread.start()
        for thread in callers:
            thread.join()
        self.stop.set()
        for thread in trainers:
            thread.join()


@pytest.mark.parametrize("shape", ["images", "letters", "caching", "spectral"])
def test_every_answer_under_load_is_the_answer_alone(make_runner, shape):
    runner = make_runner(SHAPES[shape](), served_adapters=3)  # so that replicas are made anew too
    asked = questions(runner, shape)
    assert len({str(answer) for _, answer in asked}) == len(asked)
    recipe = Recipe("all", max_steps=4, seed=9)
    adapted = runner.adapt(examples(shape), recipe).adapter.id
    before = traces(runner)
    load = Load(runner, shape, asked, recipe)
    load.run()
    assert load.right == [True] * ANSWERS
    assert len(load.adapted) > TRAINERS
    assert set(load.adapted) == {adapted}
    assert traces(runner) == before
    assert jobs_left(runner) == 0
