"""Equal examples of one owner are learned once at a time, over workers and over servers."""

import hashlib
import itertools
import os
import signal
import textwrap
from contextlib import ExitStack
from functools import partial

import pytest

from bench.postgres import Cluster, find_binaries
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.test_adapter_changes_reach_all import ADA, BOB, KEYS
from tests.cog_adapt.waiting import wait_for, wait_until

SEEDS = itertools.count(1)
ASYNC = {"Prefer": "respond-async"}
WAITS = "waits until another process has learned from the same examples"
CODE = """
    import asyncio
    import os
    import time

    from cog import BaseRunner

    from cog_adapt import ModelRunner, Recipe, RunnerSettings
    from cog_adapt.runner.requests.learning import learn
    from cog_adapt.runner.requests.plan import AdaptationRequest, plan
    from cog_adapt.runner.requests.progress import Progress
    from tests.cog_adapt.models import Letters, examples


    class Slow(Letters):
        def loss(self, module, batch, targets):
            time.sleep(0.1)
            return super().loss(module, batch, targets)


    class Learner(BaseRunner):
        def setup(self) -> None:
            self.runner = ModelRunner(Slow(), RunnerSettings.from_environment())

        async def run(self, seed: int, steps: int = 30, budget: float = 0.0) -> list[str]:
            print("process", os.getpid(), flush=True)
            owner = self.runner.asker_of(self.scope.context).owner
            recipe = Recipe(method="lora", max_steps=steps, budget_seconds=budget or None)
            wanted = AdaptationRequest(examples("letters", seed=seed), recipe, owner)
            planned = await asyncio.to_thread(plan, self.runner, wanted)
            made = await learn(self.runner, planned, Progress(self.scope).show)
            known = "known" if made.report["known"] else "learned"
            return [known, str(made.adapter.id), made.report["stop_reason"]]
"""


def write_code(folder):
    """Write the predictor and the keys of a server; return its settings."""
    (folder / "learner.py").write_text(textwrap.dedent(CODE))
    lines = [f"{who} {hashlib.sha256(key.encode()).hexdigest()}" for key, who in KEYS.items()]
    (folder / "keys").write_text("\n".join(lines))
    return {"WEIGHTS_DIR": str(folder / "weights"), "API_KEYS_FILE": str(folder / "keys")}


def is_ready(server):
    return server.get("/readyz", headers=ADA).status_code == 200


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Where two equal requests may come: to two workers, or to two servers."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL: run .ci/postgres")
    folder = tmp_path_factory.mktemp("equal")
    env = write_code(folder)
    with ExitStack() as stack:
        cluster = Cluster(binaries)
        stack.callback(cluster.remove)
        env |= {"DATABASE_URL": cluster.empty(), "MODEL_PROCESSES": "2"}
        start = partial(serving, "mirror", folder, predict="learner.py:Learner", env=env)
        both = [stack.enter_context(start(until="up")) for _ in range(2)]
        for each in both:
            wait_until(partial(is_ready, each), 120)
        yield {"workers": (both[0], both[0]), "servers": (both[0], both[1])}


@pytest.fixture
def seed():
    """Of examples that no other test has."""
    return next(SEEDS)


@pytest.fixture(params=["workers", "servers"])
def pair(request, pairs):
    return pairs[request.param]


class Run:
    """A prediction under way at a server."""

    def __init__(self, server, seed, headers=ADA, **values):
        self.server, self.headers = server, headers
        body = {"input": {"seed": seed} | values}
        answer = server.post("/predictions", body, headers=headers | ASYNC)
        assert answer.status_code == 202, answer.text
        self.path = f"/predictions/{answer.json()['id']}"

    @property
    def record(self):
        return self.server.get(self.path, headers=self.headers).json()

    def prints(self, text):
        wait_until(lambda: text in self.record["logs"], 60, lambda: self.record)
        return self

    def ended(self):
        ends = ("succeeded", "failed", "canceled")
        return wait_for(lambda: found if (found := self.record)["status"] in ends else None, 120)

    def cancel(self):
        self.server.post(f"{self.path}/cancel", headers=self.headers)

    @property
    def process(self):
        return int(self.prints("process").record["logs"].split("process ")[1].split()[0])


def test_what_is_learned_elsewhere_is_waited_for_and_used(pair, seed):
    first = Run(pair[0], seed).prints("step 1/")
    second = Run(pair[1], seed).prints(WAITS)
    assert first.process != second.process
    one, other = first.ended(), second.ended()
    assert one["output"][0] == "learned", one
    assert other["output"] == ["known", *one["output"][1:]]
    assert "step" not in other["logs"]


def test_who_waits_may_leave_and_takes_over_what_is_given_up(pair, seed):
    first = Run(pair[0], seed, steps=200).prints("step 1/")
    waiting = Run(pair[1], seed, steps=200).prints(WAITS)
    waiting.cancel()
    assert waiting.ended()["status"] == "canceled"
    assert first.record["status"] == "processing"
    waiting = Run(pair[1], seed, steps=200).prints(WAITS)
    first.cancel()
    assert first.ended()["status"] == "canceled"
    waiting.prints("step 1/").cancel()
    assert waiting.ended()["status"] == "canceled"


def test_a_claim_ends_with_its_worker(pair, seed):
    first = Run(pair[0], seed, steps=50).prints("step 1/")
    second = Run(pair[1], seed, steps=50).prints(WAITS)
    os.kill(first.process, signal.SIGKILL)
    assert first.ended()["status"] == "failed"
    assert second.ended()["output"][0] == "learned"


def test_no_owner_waits_for_another(pair, seed):
    first = Run(pair[0], seed, steps=100).prints("step 1/")
    second = Run(pair[1], seed, headers=BOB, steps=100).prints("step 1/")
    assert WAITS not in second.record["logs"]
    for each in (first, second):
        each.cancel()
        assert each.ended()["status"] == "canceled"


def test_a_budget_pays_for_the_wait(pair, seed):
    first = Run(pair[0], seed, steps=1000, budget=3.0).prints("step 1/")
    second = Run(pair[1], seed, steps=1000, budget=3.0).prints(WAITS)
    assert first.ended()["output"][2] == "budget_seconds"
    ended = second.ended()
    assert ended["output"][2] == "budget_seconds"
    assert ended["metrics"]["predict_time"] < 30


def test_a_claim_ends_with_its_server(pairs, seed):
    here, there = pairs["servers"]
    Run(there, seed, steps=1000).prints("step 1/")
    waiting = Run(here, seed, steps=1000).prints(WAITS)
    os.kill(there.process.pid, signal.SIGKILL)
    waiting.prints("step 1/").cancel()
    assert waiting.ended()["status"] == "canceled"
