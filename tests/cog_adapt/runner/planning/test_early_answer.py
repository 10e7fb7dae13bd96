"""Who polls sees the closed form's answer once, before any step; and nothing is left running."""

import asyncio
import threading
from types import SimpleNamespace

import pytest
import torch

from cog_adapt.runner.adaptation.report import Snapshot, Step
from cog_adapt.runner.heads.decision import BASE, CLOSED, CandidateScore, HeadDecision, decide
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests.early_answer import EarlyAnswer
from cog_adapt.runner.requests.few_shot import answer
from cog_adapt.runner.requests.progress import Progress
from gradient_check.tests.models import LABELS, WIDTH
from tests.cog_adapt.runner.featured import FEW_STEPS, Featured, separated
from tests.cog_adapt.waiting import until

INPUTS = [example.input for example in separated(3, seed=9)]
HEAD = {"head.weight": torch.eye(3, WIDTH) * 4, "head.bias": torch.ones(3)}
GOOD, BAD = CandidateScore(0.2, 0.9, 0.05), CandidateScore(1.2, 0.4, 0.05)
CLOSED_WINS: HeadDecision = decide({BASE: BAD, CLOSED: GOOD}, "accuracy")
BASE_WINS: HeadDecision = decide({BASE: GOOD, CLOSED: BAD}, "accuracy")
STEP = Step(1, 6, 1.0, 1.0, 0.1, 0.0)


class Gated(Featured):
    """Answers only once the gate is open."""

    def __init__(self):
        self.gate = threading.Event()

    def predict(self, module, batch, labels, options):
        assert self.gate.wait(20)
        return super().predict(module, batch, labels, options)


class Ended(Exception):
    """Ends an adaptation."""


@pytest.fixture
def runner(make_runner):
    return make_runner(Featured())


@pytest.fixture
def gated(make_runner):
    task = Gated()
    yield make_runner(task)
    task.gate.set()


@pytest.fixture
def metrics():
    return []


@pytest.fixture
def progress(metrics):
    return Progress(SimpleNamespace(context={}, record_metric=lambda *pair: metrics.append(pair)))


def early_of(decision=CLOSED_WINS):
    return Snapshot(HEAD, LABELS, "head", decision)


def query():
    return Query(INPUTS, labels=LABELS)


def values(metrics, name):
    return [value for key, value in metrics if key == name]


async def learned_after(early, event):
    """Stand for an adaptation: its closed form, a step, and the end once the event has come."""
    early.show(early_of())
    early.show(STEP)
    await event.wait()
    return "learned"


def test_the_closed_form_answers_once_while_the_steps_run(runner, metrics, progress):
    async def asked():
        early, event = EarlyAnswer(runner, query(), progress), asyncio.Event()
        whole = asyncio.create_task(early.shown_while(learned_after(early, event)))
        await until(lambda: values(metrics, "early"))
        assert not whole.done()
        event.set()
        return await whole

    assert asyncio.run(asked()) == "learned"
    adapter = Adapter(HEAD, LABELS, "head", runner.base)
    expected = {
        "predictions": runner.predict(INPUTS, adapter),
        "expected": "expected accuracy about .90 ± .05, was .40",
    }
    assert values(metrics, "early") == [expected]
    assert values(metrics, "adaptation.step") == [1]


def test_where_the_base_is_better_it_answers_early(runner, metrics, progress):
    async def asked():
        early = EarlyAnswer(runner, query(), progress)

        async def learning():
            early.show(early_of(BASE_WINS))

        await early.shown_while(learning())

    asyncio.run(asked())
    assert values(metrics, "early")[0]["predictions"] == runner.predict(INPUTS, labels=LABELS)


def test_an_adaptation_that_ends_first_waits_for_the_early_answer(gated, metrics, progress):
    async def asked():
        early, event = EarlyAnswer(gated, query(), progress), asyncio.Event()
        event.set()
        whole = asyncio.create_task(early.shown_while(learned_after(early, event)))
        await until(lambda: values(metrics, "adaptation.step"))
        assert not whole.done()
        assert not values(metrics, "early")
        gated.task.gate.set()
        await whole

    asyncio.run(asked())
    assert len(values(metrics, "early")) == 1


def test_without_a_closed_form_nothing_is_shown_early(runner, metrics, progress):
    async def asked():
        early = EarlyAnswer(runner, query(), progress)

        async def learning():
            early.show(STEP)
            return "learned"

        return await early.shown_while(learning())

    assert asyncio.run(asked()) == "learned"
    assert values(metrics, "early") == []


async def nothing_is_left():
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})


def test_an_adaptation_that_fails_leaves_no_answer_running(gated, metrics, progress):
    async def asked():
        early = EarlyAnswer(gated, query(), progress)

        async def learning():
            early.show(early_of())
            await asyncio.sleep(0)
            raise Ended

        with pytest.raises(Ended):
            await early.shown_while(learning())
        await nothing_is_left()

    asyncio.run(asked())
    assert metrics == []


@pytest.mark.parametrize("learned", [False, True])
def test_a_caller_that_leaves_leaves_no_answer_running(gated, metrics, progress, learned):
    """While the steps run, or while the early answer is waited for."""

    async def asked():
        early, event = EarlyAnswer(gated, query(), progress), asyncio.Event()
        whole = asyncio.create_task(early.shown_while(learned_after(early, event)))
        await until(lambda: values(metrics, "adaptation.step"))
        if learned:
            event.set()
            await asyncio.sleep(0)
        whole.cancel()
        with pytest.raises(asyncio.CancelledError):
            await whole
        await nothing_is_left()

    asyncio.run(asked())
    assert values(metrics, "early") == []


def test_a_request_has_its_early_answer_before_its_steps_and_its_output(runner, metrics):
    rows = [{"input": each.input, "target": each.target} for each in separated(3)]
    scope = SimpleNamespace(context={}, record_metric=lambda *pair: metrics.append(pair))
    request = Request(inputs=INPUTS, examples=rows, recipe=FEW_STEPS)
    given = asyncio.run(answer(runner, request, scope))
    assert len(values(metrics, "early")) == 1
    assert values(metrics, "early")[0]["expected"].startswith("no estimate")
    assert len(values(metrics, "early")[0]["predictions"]) == len(given.predictions)
    assert values(metrics, "adaptation.step") == [1, 2, 3, 4, 5, 6]
    again = asyncio.run(answer(runner, request, scope))
    assert again.predictions == given.predictions
    assert len(values(metrics, "early")) == 1  # what is known has its final answer at once
