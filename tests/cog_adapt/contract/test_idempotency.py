"""Section 2: PUT with an id, while it runs and afterwards."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cog_adapt.contract.differences import expect, follows_cog
from tests.cog_adapt.waiting import wait_for

MISMATCH = {
    "detail": [
        {
            "loc": ["body", "id"],
            "msg": "prediction ID must match the ID supplied in the URL",
            "type": "value_error",
        }
    ]
}


@pytest.fixture
def running(actions):
    """The id of a prediction that runs."""
    actions.until_idle()
    name = actions.start(action="sleep", seconds=20.0, text="first")
    path = f"/predictions/{name}"
    same = {"input": {"action": "sleep", "seconds": 20.0, "text": "first"}}
    wait_for(lambda: actions.request("PUT", path, same).json().get("logs") or None)
    yield name
    actions.cancel(name)


SAME = {"action": "sleep", "seconds": 20.0, "text": "first"}


def test_put_runs_a_prediction(actions):
    name = actions.new_id()
    body = actions.put(f"/predictions/{name}", {"input": {"text": "put"}}).json()
    assert (body["id"], body["output"], body["status"]) == (name, "put", "succeeded")


@pytest.mark.parametrize("inner", [{}, {"id": None}, {"id": "same"}])
def test_the_id_may_be_in_the_body_too(actions, inner):
    name = actions.new_id()
    body = inner if inner.get("id") is None else {"id": name}
    assert actions.put(f"/predictions/{name}", body).json()["id"] == name


def test_put_with_two_ids_is_422(actions):
    response = actions.request("PUT", "/predictions/a", {"id": "b"})
    assert (response.status_code, response.json()) == (422, MISMATCH)


def test_put_of_a_running_id_shows_it(actions, running):
    response = actions.request("PUT", f"/predictions/{running}", {"input": SAME})
    assert response.status_code == 202
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "id": running,
        "input": SAME,
        "logs": "sleeping\n",
        "metrics": {},
        "status": "processing",
    }


def test_put_of_a_running_id_is_never_a_new_run(actions, running):
    for headers in ({}, {"Prefer": "respond-async"}, {"Prefer": "wait=1"}):
        response = actions.request(
            "PUT", f"/predictions/{running}", {"input": SAME}, headers=headers
        )
        assert (response.status_code, response.json()["status"]) == (202, "processing")


@pytest.mark.parametrize("other", [{"text": "other"}, {"text": 5}, {}])
def test_put_of_a_running_id_with_another_input(actions, running, other):
    response = actions.request("PUT", f"/predictions/{running}", {"input": other})
    code = 422 if other.get("text") == 5 else 409
    expected = expect(actions, coglet=202, mirror=code, because="put-running-other")
    assert response.status_code == expected


@pytest.mark.parametrize("body", [{}, {"webhook": None}])
def test_put_of_a_running_id_without_an_input_shows_it(actions, running, body):
    response = actions.request("PUT", f"/predictions/{running}", body)
    assert (response.status_code, response.json()["input"]) == (202, SAME)


def test_put_of_a_running_id_checks_the_envelope(actions, running):
    response = actions.request("PUT", f"/predictions/{running}", {"id": "other"})
    assert (response.status_code, response.json()) == (422, MISMATCH)
    path, headers = f"/predictions/{running}", {"Content-Type": "application/json"}
    assert actions.raw("PUT", path, b"{", headers)[0] == 400


def test_put_of_a_running_id_cannot_be_streamed_without_streaming(actions, running):
    stream = {"Accept": "text/event-stream"}
    body = {"input": SAME}
    response = actions.request("PUT", f"/predictions/{running}", body, headers=stream)
    assert response.status_code == 406


def test_put_of_a_running_generator_shows_its_output_so_far(iterating):
    iterating.until_idle()
    name = iterating.start(n=2, seconds=1.0)
    path, same = f"/predictions/{name}", {"input": {"n": 2, "seconds": 1.0}}

    def look():
        body = iterating.request("PUT", path, same).json()
        return body if body.get("output") else None

    body = wait_for(look)
    assert body["output"] == [[0]]
    assert body["logs"] == "item 0\n"
    assert body["input"] == {"n": 2, "seconds": 1.0}
    iterating.cancel(name)


def test_put_of_a_finished_id(actions):
    actions.until_idle()  # of what earlier tests have canceled
    path = f"/predictions/{actions.new_id()}"
    first = actions.put(path, {"input": {"text": "same"}})
    again = actions.put(path, {"input": {"text": "same"}})
    assert (again.status_code, again.json()["output"]) == (200, "same")
    if follows_cog(actions, because="put-finished"):
        assert "idempotent-replayed" not in again.headers
        assert again.json()["metrics"] != first.json()["metrics"]
    else:
        assert again.headers["idempotent-replayed"] == "true"
        assert again.json()["metrics"] == first.json()["metrics"]


def test_put_of_a_finished_id_with_another_input(actions):
    path = f"/predictions/{actions.new_id()}"
    actions.put(path, {"input": {"text": "one"}})
    again = actions.put(path, {"input": {"text": "two"}})
    assert again.status_code == expect(actions, coglet=200, mirror=409, because="put-finished")


def test_post_with_a_finished_id(actions):
    name = actions.new_id()
    for text in ("one", "two"):
        response = actions.post("/predictions", {"id": name, "input": {"text": text}})
        if text == "two" and actions.flavour == "mirror":
            assert response.status_code in (200, 409)
        else:
            assert response.json()["output"] == text


def test_post_with_a_running_id(concurrent):
    concurrent.until_idle()
    body = {"id": concurrent.new_id(), "input": {"action": "sleep", "seconds": 0.7}}
    with ThreadPoolExecutor(2) as pool:
        answers = list(
            pool.map(lambda _: concurrent.request("POST", "/predictions", body), range(2))
        )
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == expect(
        concurrent, coglet=[200, 200], mirror=[200, 409], because="post-same-id"
    )
