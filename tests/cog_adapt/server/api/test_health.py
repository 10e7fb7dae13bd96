"""The endpoints about the server itself."""

import json
import math

import pytest

from cog_adapt.server.protocol import AskGauges, AskSelfTest, Gauges, Ready, SelfTested


def read(answer):
    return json.loads(answer.body)


def answer_with(site, *answers):
    """Let the worker answer these in turn; None: it does not."""
    left, asked = list(answers), []

    async def ask(question, answer, seconds):
        asked.append((question, answer, seconds))
        found = left.pop(0)
        if found is None:
            raise TimeoutError
        return found

    site.lead.pending.ask = ask
    return asked


def test_the_root_names_trainings_only_once_the_model_is_ready(play):
    async def scene(site):
        assert "trainings_url" in read(await site.ask("GET", "/"))
        site.lead.state = "setup failed"
        assert "trainings_url" not in read(await site.ask("GET", "/"))

    play(scene)


@pytest.mark.parametrize(("passed", "status"), [(True, 200), (False, 503)])
def test_the_self_test_is_shown_and_run_again(play, passed, status):
    async def scene(site):
        none = await site.ask("GET", "/selftest")
        assert (none.status, none.error) == (
            404,
            "there is no self-test: the predictor has no ModelRunner.",
        )
        site.lead.ready = Ready(b'{"passed":true,"n":1}')
        assert read(await site.ask("GET", "/selftest")) == {"n": 1, "passed": True}
        report = {"n": 2, "passed": passed}
        asked = answer_with(site, SelfTested(json.dumps(report).encode()))
        answer = await site.ask("POST", "/selftest")
        assert (answer.status, read(answer)) == (status, report)
        assert asked == [(AskSelfTest(), SelfTested, 600.0)]
        assert (await site.ask("GET", "/selftest")).status == status
        gauge = site.metrics.registry.get_sample_value
        assert gauge("cog_self_test_passed") == passed

    play(scene)


def test_a_self_test_that_is_off_is_no_failure_and_no_pass(play):
    async def scene(site):
        site.lead.ready = Ready(b'{"passed":null,"level":"off","reports":[]}')
        answer = await site.ask("GET", "/selftest")
        assert (answer.status, read(answer)["passed"]) == (200, None)
        answer_with(site, SelfTested(b'{"passed":null,"level":"off","reports":[]}'))
        assert (await site.ask("POST", "/selftest")).status == 200
        assert math.isnan(site.metrics.registry.get_sample_value("cog_self_test_passed"))

    play(scene)


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        (SelfTested(error="boom"), 500, "the self-test could not be run: boom"),
        (None, 504, "no self-test within 600 s."),
        (SelfTested(), 404, "there is no self-test: the predictor has no ModelRunner."),
    ],
)
def test_a_self_test_that_cannot_be_run_says_why(play, answer, status, error):
    async def scene(site):
        answer_with(site, answer)
        found = await site.ask("POST", "/selftest")
        assert (found.status, found.error) == (status, error)

    play(scene)


def test_only_a_ready_model_runs_its_self_test(play):
    async def scene(site):
        site.lead.state = "crashed"
        answer = await site.ask("POST", "/selftest")
        assert (answer.status, answer.error) == (
            503,
            "the model is not ready; see GET /health-check.",
        )

    play(scene)


def test_metrics_count_what_waits_and_runs_and_ask_for_gauges(play):
    async def scene(site):
        for name in "abc":
            await site.harness.submit(name, durable=False)
        await site.harness.submit("t", "train", durable=False)
        asked = answer_with(site, Gauges({"device_memory_bytes": 5.0}), None)
        answer = await site.ask("GET", "/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        value = site.metrics.registry.get_sample_value
        assert (value("cog_queue_depth"), value("cog_predictions_running")) == (2, 2)
        assert b"device_memory_bytes 5.0" in answer.body
        assert asked == [(AskGauges(), Gauges, 0.5)]
        again = await site.ask("GET", "/metrics", accept="application/openmetrics-text")
        assert again.headers["content-type"].startswith("application/openmetrics-text")
        assert b"device_memory_bytes" not in again.body
        site.lead.state = "crashed"
        assert (await site.ask("GET", "/metrics")).status == 200
        assert len(asked) == 2

    play(scene)
