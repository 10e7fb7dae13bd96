"""Section 2: synchronous and asynchronous answers, failures, and the order of checks."""

from typing import Any

import pytest

from tests.cog_adapt.contract.differences import expect, follows_cog
from tests.cog_adapt.waiting import wait_for

NOT_READY = {
    "error": "Setup has not finished yet. Wait until it has finished, "
    "or GET /health-check for status.",
    "status": "failed",
}
SETUP_FAILED = {
    "error": "Setup has failed, so nothing can run. The reason is in setup.logs of "
    "GET /health-check; correct it, and start the server again.",
    "status": "failed",
}
ASYNC = {"Prefer": "respond-async"}


def test_a_synchronous_answer(actions):
    response = actions.post("/predictions", {"id": "mine", "input": {"text": "hi"}})
    body = response.json()
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert list(body) == ["id", "logs", "metrics", "output", "status"]
    assert body["metrics"].keys() == {"predict_time"}
    assert 0 < body["metrics"]["predict_time"] < 60
    assert (body["id"], body["logs"], body["output"], body["status"]) == (
        "mine",
        "",
        "hi",
        "succeeded",
    )


def test_predict_time_is_in_seconds(actions):
    body = actions.predict(action="sleep", seconds=0.3)
    assert 0.3 <= body["metrics"]["predict_time"] < 1.3


def test_json_is_compact_and_not_escaped(actions):
    text = actions.post("/predictions", {"input": {"text": "é"}}).text
    assert '"output":"é"' in text


def test_a_failure_is_200(actions):
    response = actions.post("/predictions", {"input": {"action": "fail", "text": "boom"}})
    body = response.json()
    assert (response.status_code, body["status"]) == (200, "failed")
    assert body["error"] == "Prediction failed: Prediction failed: ValueError: boom"
    assert list(body) == ["error", "id", "logs", "metrics", "status"]
    assert body["metrics"].keys() == {"predict_time"}


@pytest.mark.parametrize("text", ["", "two\nlines", "é"])
def test_the_error_is_the_exceptions_own_text(actions, text):
    error = actions.predict(action="fail", text=text)["error"]
    assert error == f"Prediction failed: Prediction failed: ValueError: {text}"


def test_a_failure_has_its_logs(actions):
    logs = actions.predict(action="fail", text="boom")["logs"]
    if follows_cog(actions, because="failure-logs"):
        assert logs == ""
    else:
        assert logs.startswith("about to fail\n")
        assert "Traceback (most recent call last)" in logs
        assert logs.rstrip().endswith("ValueError: boom")


def test_exit_fails_the_prediction_alone(actions):
    body = actions.predict(action="exit")
    assert body["status"] == "failed"
    assert body["error"] == "Prediction failed: Prediction failed: SystemExit: 3"
    assert actions.output() == "hello"


def test_a_generator_fails_with_words_of_its_own(iterating):
    body = iterating.predict(fail=True)
    assert body["error"] == "Prediction failed: Generator iteration error: ValueError: boom"
    assert "output" not in body


def test_an_async_run_fails_with_words_of_its_own(concurrent):
    body = concurrent.predict(action="fail", text="boom")
    assert body["error"] == "Prediction failed: Async prediction failed: ValueError: boom"


def test_an_asynchronous_answer(actions):
    name = actions.new_id()
    response = actions.post("/predictions", {"id": name}, headers=ASYNC)
    assert (response.status_code, response.json()) == (202, {"id": name, "status": "starting"})
    assert response.headers["content-type"] == "application/json"


def test_an_asynchronous_answer_has_a_generated_id(actions):
    actions.until_idle()
    assert actions.post("/predictions", {}, headers=ASYNC).json()["id"].startswith("pred_")


def test_asynchronous_work_goes_on_without_its_client(actions, tmp_path):
    mark = tmp_path / "mark"
    actions.until_idle()
    actions.start(action="mark", text=str(mark), seconds=0.3)
    assert wait_for(lambda: mark.exists() and mark.read_text() or None) == "ended"


def test_put_may_be_asynchronous(actions):
    name = actions.new_id()
    response = actions.put(f"/predictions/{name}", {}, headers=ASYNC)
    assert (response.status_code, response.json()) == (202, {"id": name, "status": "starting"})


@pytest.mark.parametrize("prefer", ["", "wait", "something-else", "return=minimal"])
def test_other_preferences_are_synchronous(actions, prefer):
    actions.until_idle()  # of the asynchronous ones before
    response = actions.post("/predictions", {}, headers={"Prefer": prefer})
    assert (response.status_code, response.json()["status"]) == (200, "succeeded")


@pytest.mark.parametrize("prefer", ["Respond-Async", "respond-async, handling=lenient"])
def test_respond_async_in_other_spellings(actions, prefer):
    response = actions.post("/predictions", {}, headers={"Prefer": prefer})
    assert response.status_code == expect(actions, coglet=200, mirror=202, because="prefer")


@pytest.mark.parametrize("prefer", ["wait=1", "respond-async, wait=1"])
def test_wait_answers_when_its_time_is_over(actions, prefer):
    body = {"input": {"action": "sleep", "seconds": 1.6}}
    response = actions.post("/predictions", body, headers={"Prefer": prefer})
    assert response.status_code == expect(actions, coglet=200, mirror=202, because="prefer")
    assert response.json()["status"] == (
        "processing" if response.status_code == 202 else "succeeded"
    )
    actions.until_idle()


def test_wait_answers_at_the_end_if_that_is_earlier(actions):
    response = actions.post("/predictions", {}, headers={"Prefer": "wait=30"})
    assert (response.status_code, response.json()["status"]) == (200, "succeeded")


@pytest.mark.parametrize("accept", ["text/*", "*/*", "TEXT/EVENT-STREAM", "text/html"])
def test_other_accepts_get_json(streaming, accept):
    response = streaming.post("/predictions", {}, headers={"Accept": accept})
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("state", ["starting", "failed"])
def test_before_setup_has_succeeded_it_is_503(starting, raising, state):
    server, answer = starting, NOT_READY
    if state == "failed":
        server = raising
        answer = expect(server, coglet=NOT_READY, mirror=SETUP_FAILED, because="setup-failed")
    for method, path in [("POST", "/predictions"), ("PUT", "/predictions/x")]:
        bodies: list[Any] = [{}, {"input": {"text": 5}}, {"input": []}]
        for body in bodies:
            response = server.request(method, path, body)
            assert (response.status_code, response.json()) == (503, answer)
    # What the envelope says comes first.
    assert server.request("POST", "/predictions", {"id": 5}).status_code == 422
    assert server.request("PUT", "/predictions/x", {"id": "y"}).status_code == 422
    assert server.raw("POST", "/predictions", b"{", {"Content-Type": "text/plain"})[0] == 415
    stream = server.request("POST", "/predictions", {}, headers={"Accept": "text/event-stream"})
    assert stream.status_code == 406
    assert server.cancel("x").status_code == 404
    openapi = server.get("/openapi.json")
    assert (openapi.status_code, openapi.json()) == (
        503,
        {"error": "OpenAPI schema not available"},
    )
    assert server.get("/").status_code == 200


def test_checks_come_in_an_order(streaming):
    """Id before stream before inputs; and inputs before room."""
    wrong = {"id": "other", "input": {"words": 5}}
    stream = {"Accept": "text/event-stream"}
    response = streaming.request("PUT", "/predictions/x", wrong, headers=stream)
    assert response.json()["detail"][0]["loc"] == ["body", "id"]
    streaming.until_idle()
    name = streaming.start(seconds=5.0)
    response = streaming.request("POST", "/predictions", {"input": {"words": 5}}, headers=stream)
    assert response.json()["detail"][0]["loc"] == ["body", "input", "words"]
    streaming.cancel(name)


def test_no_stream_before_inputs(actions):
    stream = {"Accept": "text/event-stream"}
    response = actions.request("POST", "/predictions", {"input": {"text": 5}}, headers=stream)
    assert response.status_code == 406


def test_no_stray_409_for_who_asks_one_after_the_other(actions):
    if follows_cog(actions, because="early-slot"):
        pytest.skip("coglet gives its slot back after the answer, so that it is chance")
    statuses = {actions.request("POST", "/predictions", {}).status_code for _ in range(100)}
    assert statuses == {200}


def test_no_free_slot(actions):
    actions.until_idle()
    name = actions.start(action="sleep", seconds=2.0)
    if follows_cog(actions, because="queue"):
        response = actions.request("POST", "/predictions", {})
        assert response.status_code == 409
        assert response.json() == {
            "error": "At capacity - all prediction slots busy",
            "status": "failed",
        }
        response = actions.request("POST", "/predictions", {}, headers=ASYNC)
        assert response.status_code == 409
        actions.cancel(name)
    else:
        assert actions.request("POST", "/predictions", {}).json()["status"] == "succeeded"


def test_a_full_queue_is_429(launch, flavour):
    if flavour != "mirror":
        pytest.skip("the mirror's own")
    server = launch("actions.py:Predictor", env={"MAX_QUEUE": "1"})
    server.start(action="sleep", seconds=30)
    server.start(action="sleep", seconds=30)
    response = server.request("POST", "/predictions", {})
    assert response.status_code == 429
    assert int(response.headers["retry-after"]) > 0
    server.process.kill()
