"""What the front may ask a model process at any time."""

import json

import pytest

from cog_adapt.server.protocol import (
    AskGauges,
    AskHealth,
    AskSelfTest,
    Finished,
    Gauges,
    Health,
    Ready,
    SelfTested,
)
from tests.cog_adapt.server.worker.conftest import Reports

SOURCE = """
    import os, time

    class Runner:
        def run(self, health: str = "", seconds: float = 0.0) -> str:
            os.environ["HEALTH"] = health
            time.sleep(seconds)
            return health

        {function} healthcheck(self):
            print("asked")
            health = os.environ.get("HEALTH", "")
            if health == "raise":
                raise ValueError("sick")
            if health == "exit":
                raise SystemExit(3)
            if health == "slow":
                time.sleep(6)
            return {{"false": False, "none": None}}.get(health, True)
"""


@pytest.fixture(scope="module", params=["def", "async def"])
def model(launch, request):
    return launch(SOURCE.format(function=request.param))


def ask(front, request, answer):
    front.ask(request)
    return front.hear_until(answer)[-1]


@pytest.mark.parametrize(
    ("health", "error"),
    [
        ("fine", None),
        ("none", None),
        ("false", "Healthcheck failed: user-defined healthcheck returned False"),
        ("raise", "Healthcheck failed: ValueError: sick"),
        ("exit", "Healthcheck failed: SystemExit: 3"),
    ],
)
def test_the_users_healthcheck_is_told_in_coglets_words(model, health, error):
    model.run(health=health)
    assert ask(model, AskHealth(), Health).error == error


def test_a_healthcheck_answers_while_a_run_goes_on_and_prints_into_no_logs(model):
    model.run(health="fine")  # what the question finds, however soon it comes
    model.start(health="fine", seconds=1.0)
    model.ask(AskHealth())
    heard = model.hear_until(Health, Finished)
    assert heard == [Health()]
    assert Reports(model.hear_until(Finished)).logs == ""


def test_a_healthcheck_that_takes_too_long_is_not_waited_for(launch):
    model = launch(SOURCE.format(function="def"))
    model.run(health="slow")
    error = "Healthcheck failed: user-defined healthcheck timed out after 5.0 seconds"
    assert ask(model, AskHealth(), Health).error == error


def test_without_a_healthcheck_a_model_is_healthy(launch):
    model = launch("def run() -> str:\n    return ''", reference="predictor.py:run")
    assert ask(model, AskHealth(), Health) == Health()
    assert ask(model, AskSelfTest(), SelfTested) == SelfTested()


def test_the_memory_is_told_and_torch_is_not_imported_for_it(launch):
    model = launch(
        "import sys\ndef run() -> bool:\n    return 'torch' in sys.modules",
        reference="predictor.py:run",
    )
    values = ask(model, AskGauges(), Gauges).values
    assert values.keys() == {"process_memory_bytes"}
    assert values["process_memory_bytes"] > 2**20
    assert model.run().output is False


def test_a_model_runners_self_test_is_told(launch):
    front = launch(
        """
        from cog_adapt.runner.config import RunnerSettings
        from cog_adapt.runner.model_runner import ModelRunner
        from tests.cog_adapt.models import Letters

        class Runner:
            def setup(self):
                self.held = ModelRunner(Letters(), RunnerSettings(device="cpu"))
                self.held.self_test()

            def run(self) -> str:
                return ""
        """,
        ready=False,
    )
    ready = front.set_up()
    assert isinstance(ready, Ready), front.setup_logs
    report = json.loads(ready.self_test)
    assert report["passed"] is True
    again = ask(front, AskSelfTest(), SelfTested)
    assert json.loads(again.report)["passed"] is True
    assert "adapter_cache_entries" in ask(front, AskGauges(), Gauges).values
