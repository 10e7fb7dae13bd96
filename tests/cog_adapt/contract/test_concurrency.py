"""Section 7: COG_MAX_CONCURRENCY, and what each prediction has for itself."""

import time
from concurrent.futures import ThreadPoolExecutor

from tests.cog_adapt.contract.differences import follows_cog
from tests.cog_adapt.contract.flavours import STRICT_OR_NOT
from tests.cog_adapt.waiting import wait_for


def at_once(server, *bodies):
    with ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(lambda body: server.request("POST", "/predictions", body), bodies))


def test_as_many_run_at_once_as_there_are_slots(concurrent):
    concurrent.until_idle()
    body = {"input": {"action": "count", "seconds": 0.6}}
    answers = at_once(concurrent, body, body, body)
    assert max(answer.json()["output"] for answer in answers) == 3


def test_one_more_than_there_are_slots(concurrent):
    concurrent.until_idle()
    body = {"input": {"action": "sleep", "seconds": 0.6}}
    codes = sorted(answer.status_code for answer in at_once(concurrent, *[body] * 4))
    if follows_cog(concurrent, because="queue"):
        assert codes == [200, 200, 200, 409]
    else:
        assert codes == [200] * 4


def test_busy_is_when_no_slot_is_free(concurrent):
    concurrent.until_idle()
    with concurrent.beginning(2):
        names = [concurrent.start(action="sleep", seconds=30) for _ in range(2)]
    assert concurrent.health()["status"] == "READY"
    names.append(concurrent.start(action="sleep", seconds=30))
    wait_for(lambda: concurrent.health()["status"] == "BUSY" or None)
    for name in names:
        concurrent.cancel(name)
    concurrent.until_idle()


def test_logs_and_metrics_stay_apart(concurrent):
    bodies = [{"input": {"action": "sleep", "text": str(n), "seconds": 0.4}} for n in range(3)]
    concurrent.until_idle()
    for number, answer in enumerate(at_once(concurrent, *bodies)):
        body = answer.json()
        assert body["output"] == str(number)
        assert body["logs"] == f"start {number}\nend {number}\n"
        assert body["metrics"]["own"] == str(number)


def test_contexts_stay_apart(concurrent):
    bodies = [
        {"input": {"action": "context", "seconds": 0.3}, "context": {"n": str(n)}} for n in range(3)
    ]
    concurrent.until_idle()
    found = [answer.json()["output"] for answer in at_once(concurrent, *bodies)]
    assert found == [{"n": "0"}, {"n": "1"}, {"n": "2"}]


def test_setup_and_run_share_one_loop(concurrent):
    assert concurrent.output(action="same_loop") is True


@STRICT_OR_NOT
def test_a_synchronous_run_with_more_slots_does_not_set_up(launch):
    env = {"COG_MAX_CONCURRENCY": "2"}
    server = launch("functions.py:Plain", env=env, until="SETUP_FAILED")
    assert server.health()["setup"]["status"] == "failed"


def test_async_generators_run_at_once_too(several):
    several.until_idle()
    body = {"input": {"seconds": 0.3}}
    began = time.monotonic()
    answers = at_once(several, body, body)
    assert [answer.json()["output"] for answer in answers] == [["a", "b", "c"]] * 2
    assert time.monotonic() - began < 1.7


def test_the_decorator_counts_where_no_variable_is_set(shared):
    server = shared("decorated.py:Predictor")
    server.until_idle()
    answers = at_once(server, *[{"input": {"seconds": 0.6}}] * 3)
    most = max(answer.json().get("output", 0) for answer in answers)
    assert most == (1 if follows_cog(server, because="decorator") else 3)


def test_the_page_says_how_many_the_decorator_takes(shared):
    server = shared("decorated.py:Predictor")
    if follows_cog(server, because="playground"):
        assert server.get("/playground/server.json").status_code == 404
    else:
        (worker,) = server.get("/playground/server.json").json()["workers"]
        assert worker["slots"] == 8
