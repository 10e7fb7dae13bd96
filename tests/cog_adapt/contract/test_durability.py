"""What the mirror has answered, it still knows after any crash."""

import os
import signal

import pytest


@pytest.fixture
def mirror(flavour):
    if flavour != "mirror":
        pytest.skip("Cog keeps no records")
    return flavour


def test_an_answer_under_a_clients_id_outlives_a_kill_right_after_it(mirror, launch, tmp_path):
    server = launch("actions.py:Predictor", folder=tmp_path)
    for method in ("PUT", "POST"):
        names = [f"{method}{number}" for number in range(5)]
        for name in names:
            path = f"/predictions/{name}" if method == "PUT" else "/predictions"
            body = {"input": {}, **({"id": name} if method == "POST" else {})}
            assert server.request(method, path, body).json()["status"] == "succeeded"
        os.kill(server.process.pid, signal.SIGKILL)
        server = launch("actions.py:Predictor", folder=tmp_path)
        for name in names:
            assert server.get(f"/predictions/{name}").json()["status"] == "succeeded"
            answer = server.put(f"/predictions/{name}", {"input": {}})
            assert answer.headers["Idempotent-Replayed"] == "true"


@pytest.mark.parametrize("retries", [-1, 11])
def test_retries_have_a_limit(mirror, actions, retries):
    answer = actions.post("/predictions", {"input": {}, "retries": retries})
    assert answer.status_code == 422
    (problem,) = answer.json()["detail"]
    assert problem["loc"] == ["body", "retries"]
    assert problem["msg"] == f"retries is {retries}; allowed: 0 to 10."


def test_brackets_that_hold_no_address_are_bad_input(mirror, actions):
    body = {"input": {"action": "read", "file": "http://[::1"}}
    answer = actions.post("/predictions", body).json()
    assert answer["status"] == "failed"
    assert answer["error"].startswith("Input validation error: ")
