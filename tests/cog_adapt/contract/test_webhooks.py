"""Section 4: what is sent where, when, and how often."""

import itertools
import json
import time
from functools import partial

import pytest

from tests.cog_adapt.contract.differences import follows_cog
from tests.cog_adapt.contract.receivers import Answer
from tests.cog_adapt.waiting import assert_stays, wait_for

HOOK = "/hook"


def payloads(server, receiver, inputs, **more):
    """Run a prediction: its final webhooks payloads, in order of arrival, without predict_time."""
    name = server.new_id()
    body = {"id": name, "input": inputs, "webhook": receiver.url + HOOK, **more}
    response = server.post("/predictions", body)
    assert response.status_code == 200, response.text
    sent = receiver.until_completed()
    for payload in sent:
        assert payload.pop("id") == name
        time_taken = payload["metrics"].pop("predict_time", None)
        assert (time_taken is None) == (payload["status"] == "processing")
    if follows_cog(server, because="webhook-order"):
        sent.sort(key=lambda each: (each["status"] != "processing", len(json.dumps(each))))
    return sent


def processing(**more):
    return {"logs": "", "metrics": {}, "status": "processing", **more}


def succeeded(**more):
    return {"logs": "", "metrics": {}, "status": "succeeded", **more}


def test_a_single_value(actions, receiver):
    assert payloads(actions, receiver, {}) == [
        processing(),
        processing(output=["hello"]),
        succeeded(output="hello"),
    ]


def test_a_list_item_by_item(actions, receiver):
    assert payloads(actions, receiver, {"action": "output", "text": "list"}) == [
        processing(),
        processing(output=[1]),
        processing(output=[1, 2]),
        processing(output=[1, 2, 3]),
        succeeded(output=[1, 2, 3]),
    ]


@pytest.mark.parametrize(("text", "output"), [("none", None), ("empty list", [])])
def test_nothing_put_out_is_no_output_event(actions, receiver, text, output):
    sent = payloads(actions, receiver, {"action": "output", "text": text})
    assert sent == [processing(), succeeded(output=output)]


def test_an_object_is_one_item(actions, receiver):
    value = {"a": {"c": [1]}, "b": 1}
    assert payloads(actions, receiver, {"action": "output", "text": "dict"}) == [
        processing(),
        processing(output=[value]),
        succeeded(output=value),
    ]


def test_a_generator_yield_by_yield(iterating, receiver):
    inputs = {"n": 2, "seconds": 0.1}
    sent = payloads(iterating, receiver, inputs, webhook_events_filter=["output", "completed"])
    assert [each.get("output") for each in sent] == [[[0]], [[0], [1]], [[0], [1]]]


def test_a_failure_has_logs_and_partial_output(iterating, receiver):
    sent = payloads(iterating, receiver, {"n": 2, "fail": True})
    end = sent[-1]
    assert (end["status"], end["output"]) == ("failed", [[0], [1]])
    assert end["error"] == "Prediction failed: Generator iteration error: ValueError: boom"
    assert end["logs"].startswith("item 0\nitem 1\n")
    assert all("error" not in each for each in sent[:-1])


def test_a_failure_without_output(actions, receiver):
    sent = payloads(actions, receiver, {"action": "fail", "text": "boom"})
    assert sent[0] == processing()
    assert sent[-1].keys() == {"error", "logs", "metrics", "status"}
    assert sent[-1]["logs"].startswith("about to fail\n")
    assert sent[-1]["error"] == "Prediction failed: Prediction failed: ValueError: boom"


def test_a_cancelled_prediction(actions, receiver):
    actions.until_idle()
    body = {"id": actions.new_id(), "input": {"action": "sleep", "seconds": 30}}
    body["webhook"] = receiver.url + HOOK
    with actions.beginning():
        actions.post("/predictions", body, headers={"Prefer": "respond-async"})
    wait_for(lambda: receiver.requests or None)
    actions.cancel(body["id"])
    end = receiver.final()
    assert end["metrics"].pop("predict_time") > 0
    assert end == {"id": body["id"], "logs": "sleeping\n", "metrics": {}, "status": "canceled"}


def test_metrics_so_far(actions, receiver):
    sent = payloads(actions, receiver, {"action": "metrics"})
    assert sent[0]["metrics"] == {}
    assert sent[-1]["metrics"]["count"] == 3
    assert sent[1]["metrics"] == sent[-1]["metrics"]


def test_the_input_is_never_sent(actions, receiver):
    assert all("input" not in each for each in payloads(actions, receiver, {"text": "secret"}))


def test_the_filter_chooses_events(actions, receiver):
    statuses = {
        "start": ["processing"],
        "completed": ["succeeded"],
        "output": ["processing"],
        "logs": ["processing"],
        "start,completed": ["processing", "succeeded"],
        "completed,start,start": ["processing", "succeeded"],
        "": [],
    }
    for chosen in statuses:
        body = {
            "input": {"action": "log"},
            "webhook": f"{receiver.url}/{chosen}",
            "webhook_events_filter": [each for each in chosen.split(",") if each],
        }
        actions.post("/predictions", body)

    def statuses_told():
        return {
            chosen: sorted(each.json["status"] for each in receiver.at(f"/{chosen}"))
            for chosen in statuses
        }

    wait_for(lambda: statuses_told() == statuses or None)
    assert_stays(lambda: statuses_told() == statuses, 0.5)
    assert receiver.at("/logs")[0].json["logs"].startswith("one\n")
    assert receiver.at("/output")[0].json["output"] == ["hello"]


def test_headers(settled, receiver):
    trace = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "vendor=1",
    }
    body = {"webhook": receiver.url + HOOK}
    settled.post("/predictions", body, headers={**trace, "x-request-id": "z"})
    receiver.until_completed()
    for request in receiver.requests:
        assert request.method == "POST"
        assert request.headers["content-type"] == "application/json"
        assert request.headers["authorization"] == "Bearer token"
        assert request.headers["user-agent"] == "coglet/0.23.1"
        assert {name: request.headers[name] for name in trace} == trace
        assert "x-request-id" not in request.headers


def test_no_token_no_authorization(actions, receiver):
    actions.post("/predictions", {"webhook": receiver.url + HOOK})
    receiver.until_completed()
    assert all("authorization" not in request.headers for request in receiver.requests)


def test_logs_are_throttled(actions, receiver):
    inputs = {"action": "slow_log", "text": "12", "seconds": 0.15}
    hook = {"webhook": receiver.url + HOOK, "webhook_events_filter": ["start", "logs"]}
    actions.post("/predictions", {"input": inputs, **hook})
    times = [request.at for request in receiver.requests]
    assert len(times) in (3, 4)  # the start, and logs at 0.6 and 1.2 s
    assert all(deferred - earlier > 0.4 for earlier, deferred in itertools.pairwise(times))
    logs = [request.json["logs"] for request in receiver.requests]
    assert logs[0] == ""
    assert all(deferred.startswith(earlier) for earlier, deferred in itertools.pairwise(logs))


def test_the_interval_can_be_set(iterating, receiver):
    """The fixture sets it to 0."""
    hook = {"webhook": receiver.url + HOOK, "webhook_events_filter": ["logs"]}
    iterating.post("/predictions", {"input": {"n": 4, "seconds": 0.05}, **hook})
    wait_for(lambda: len(receiver.requests) == 4 or None)
    logs = sorted(request.json["logs"] for request in receiver.requests)
    assert logs[-1] == "item 0\nitem 1\nitem 2\nitem 3\n"


def test_outputs_are_not_throttled(actions, receiver):
    sent = payloads(actions, receiver, {"action": "output", "text": "list"})
    assert len([each for each in sent if "output" in each]) == 4


def test_events_arrive_in_order(iterating, receiver):
    if follows_cog(iterating, because="webhook-order"):
        pytest.skip("coglet sends all at once, so that it is chance")
    receiver.answer(HOOK, Answer(delay=0.3), Answer())
    sent = payloads(iterating, receiver, {"n": 3})
    assert sent[-1]["status"] == "succeeded"
    outputs = [len(each.get("output", [])) for each in sent]
    assert outputs == sorted(outputs)


def end_with(server, receiver, code, *answers):
    """Let a prediction end whose last webhook is answered so, at a path of the code."""
    url = receiver.answer(f"/{code}", *answers)
    server.post("/predictions", {"webhook": url, "webhook_events_filter": ["completed"]})


def told(receiver, code, count):
    """The requests at the path of a code, once there are so many."""
    came = receiver.at(f"/{code}")
    return came if len(came) == count else None


def test_the_last_event_is_sent_again(actions, receiver):
    codes = (429, 500, 502, 503, 504)
    for code in codes:
        end_with(actions, receiver, code, Answer(code), Answer(code), Answer(200))
    for code in codes:
        first, second, third = wait_for(partial(told, receiver, code, 3))
        assert first.body == second.body == third.body
        assert second.at - first.at > 0.1


def test_other_answers_are_final(actions, receiver):
    codes = (400, 404, 408, 501)
    for code in codes:
        end_with(actions, receiver, code, Answer(code))
        wait_for(partial(told, receiver, code, 1))
    assert_stays(lambda: len(receiver.requests) == len(codes), 1.0)


def test_other_events_are_sent_once(actions, receiver):
    receiver.answer(HOOK, Answer(500))
    hook = {"webhook": receiver.url + HOOK, "webhook_events_filter": ["start", "output"]}
    actions.post("/predictions", {**hook})
    wait_for(lambda: len(receiver.requests) == 2 or None)
    assert_stays(lambda: len(receiver.requests) == 2, 1.0)


def test_a_receiver_that_is_down_holds_up_nothing(actions):
    body = {"webhook": "http://127.0.0.1:1/hook"}
    assert actions.post("/predictions", body).json()["status"] == "succeeded"
    assert actions.post("/predictions", {}).status_code == 200


def test_a_receiver_that_is_slow_holds_up_nothing(actions, receiver):
    receiver.answer(HOOK, Answer(delay=2.0))
    began = time.monotonic()
    actions.post("/predictions", {"webhook": receiver.url + HOOK})
    actions.post("/predictions", {})
    assert time.monotonic() - began < 1.5


def test_refused_requests_send_nothing(actions, receiver):
    body = {"input": {"text": 5}, "webhook": receiver.url + HOOK}
    assert actions.post("/predictions", body).status_code == 422
    assert_stays(lambda: not receiver.requests, 0.3)


def test_streams_send_webhooks_too(streaming, receiver):
    body = {"input": {"words": "a"}, "webhook": receiver.url + HOOK}
    streaming.stream("/predictions", body)
    assert receiver.final()["output"] == ["a"]


def test_trainings_send_webhooks_too(trainer, receiver):
    body = {"input": {"name": "n"}, "webhook": receiver.url + HOOK}
    trainer.post("/trainings", body)
    sent = receiver.until_completed()
    assert sent[0]["status"] == "processing"
    assert [each for each in sent if each["status"] == "succeeded"]


@pytest.mark.parametrize("url", ["notaurl", "ftp://x/y", "http://10.0.0.1/hook", ""])
def test_a_webhook_that_could_never_be_sent(actions, url):
    response = actions.post("/predictions", {"input": {}, "webhook": url})
    if follows_cog(actions, because="bad-webhook"):
        assert response.status_code == 200
    else:
        assert response.status_code == 422
        assert response.json()["detail"][0]["loc"] == ["body", "webhook"]
