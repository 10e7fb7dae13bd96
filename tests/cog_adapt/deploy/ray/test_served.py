"""The whole server under Ray Serve: nothing is lost when a replica or a node is killed.

The tests run in the order of the file, since they share one cluster: each needs minutes of its own.
"""

import threading
from concurrent.futures import Future
from datetime import UTC, datetime

import pytest

from bench.ray_serve.environment import interfaces
from tests.cog_adapt.deploy.ray.calling import Called
from tests.cog_adapt.waiting import wait_for, wait_until

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]  # Ray's, of pydantic
UPDATED = {"min_replicas": 2, "max_replicas": 3, "work_per_replica": 2, "drain_seconds": 20}


def since(moment):
    return (datetime.now(UTC) - moment).total_seconds()


def ended(calls):
    """What became of calls, all of which succeeded."""
    found = [call.result() for call in calls]
    assert [each.status for each in found] == ["succeeded"] * len(found), found
    return found


def test_ray_sees_no_network(folder):
    assert interfaces() == ["lo"]


def test_the_first_request_after_the_deployment_finds_a_model(caller):
    answer = caller.get("/readyz")
    assert (answer.status_code, answer.json()["ready"]) == (200, True)


def test_a_caller_cannot_end_a_replica(nodes, caller):
    before = nodes.replicas()
    answer = caller.ask("POST", "/shutdown")
    assert answer.status_code == 403
    assert "`serve shutdown`" in answer.json()["error"]
    assert nodes.replicas() == before


def test_nothing_is_deleted_for_strangers_as_long_as_no_keys_are_set(caller):
    answer = caller.ask("DELETE", "/predictions/any", headers={"Host": "localhost"})
    assert (answer.status_code, "API_KEYS_FILE" in answer.text) == (403, True)


def test_a_run_is_canceled_whichever_replica_is_asked(nodes, caller):
    names = [f"cancel-{n}" for n in range(6)]
    calls = [caller.start(name, seconds=600) for name in names]
    wait_until(lambda: all(map(nodes.server_of, names)))
    assert [caller.ask("POST", f"/predictions/{name}/cancel").status_code for name in names] == [
        200
    ] * len(names)
    assert {call.result().status for call in calls} == {"canceled"}


def test_the_events_of_a_run_are_read_at_every_replica(caller):
    call = caller.start("events", seconds=3)
    wait_until(lambda: caller.get("/predictions/events").status_code == 200)
    read = [caller.get("/predictions/events/events").text for _ in range(2)]
    assert [text.count('"status":"succeeded"') for text in read] == [1, 1], read
    ended([call])


def test_a_killed_replicas_runs_end_elsewhere(nodes, caller, figures):
    calls = [caller.start(f"kill-{n}", seconds=1.5) for n in range(24)]
    calls += [caller.start(f"wait-{n}", prefer="wait=60", seconds=1.5) for n in range(8)]
    dead, before = wait_for(lambda: nodes.server_of("kill-7")), nodes.replicas()
    killed = datetime.now(UTC)
    nodes.kill_replica(dead)
    found = ended(calls)
    wait_until(lambda: len({*nodes.replicas()} - {*before}) == 1, 300)
    event = "a replica killed, 32 runs in flight"
    figures.add(event, found, killed=killed, seconds=since(killed))


def test_a_node_that_is_lost_in_mid_adaptation_costs_no_adaptation(nodes, caller, figures):
    calls = [caller.start(f"learn-{n}", seed=n + 1, steps=150) for n in range(4)]
    wait_until(
        lambda: "step 5/150" in caller.get("/predictions/learn-0").json().get("logs", ""), 300
    )
    killed, lost = datetime.now(UTC), nodes.server_of("learn-0")
    nodes.kill_node_of(lost)
    nodes.add_worker()
    found = ended(calls)
    assert len({each.record["output"] for each in found}) == len(found)
    assert "step 150/150" in found[0].record["logs"]
    assert nodes.server_of("learn-0") != lost
    wait_until(lambda: len(nodes.replicas()) == 2, 300)
    event = "a node killed, 4 adaptations under way"
    figures.add(event, found, killed=killed, seconds=since(killed))


def test_an_update_under_load_fails_no_request(nodes, caller, figures):
    before, began = nodes.replicas(), datetime.now(UTC)
    calls: list[Future[Called]] = []
    update = threading.Thread(target=nodes.serve, kwargs=UPDATED)
    update.start()
    while update.is_alive():
        prefer = "wait=60" if len(calls) % 2 else "respond-async"
        calls.append(caller.start(f"update-{len(calls)}", prefer=prefer, seconds=0.5))
        update.join(0.2)
    seconds, found = since(began), ended(calls)
    assert found
    assert not {*nodes.replicas()} & {*before}
    event = "all replicas updated, requests all the while"
    figures.add(event, found, killed=None, seconds=seconds)


def test_waiting_work_starts_another_replica(nodes, caller):
    calls = [caller.start(f"more-{n}", seconds=10) for n in range(80)]
    wait_until(lambda: len(nodes.replicas()) == 3, 300)
    ended(calls)
