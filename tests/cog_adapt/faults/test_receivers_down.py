"""A receiver of webhooks is down, slow or broken: nobody waits, and it hears the end once."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.cog_adapt.contract.receivers import Answer, Receiver
from tests.cog_adapt.contract.serving import free_port
from tests.cog_adapt.faults.cluster import (
    SECONDS,
    assert_told_once,
    kill,
    last_words,
    statuses,
    submit,
)
from tests.cog_adapt.waiting import wait_for

FINAL = ("succeeded", "failed", "canceled")


class Door(BaseHTTPRequestHandler):
    """Takes down what comes."""

    took: list[tuple[str, str]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.took.append((self.headers["webhook-id"], body["status"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


def test_receivers_that_fail_hold_up_nobody_and_hear_the_end_once(cluster, receiver):
    server = cluster.start(env={"COG_THROTTLE_RESPONSE_INTERVAL": "0"})
    receiver.answer("/hook/broken", *[Answer(503)] * 3, Answer())
    receiver.answer("/hook/hanging", Answer(delay=3))
    receiver.answer("/hook/refusing", Answer(404))
    hook = receiver.url + "/hook"
    names = ("broken", "hanging", "refusing", "well")
    for name in names:
        submit(server, name, envelope={"webhook": f"{hook}/{name}"})
    assert set(statuses(server, *names).values()) == {"succeeded"}
    assert not last_words(receiver, "hanging", "/hook"), "it was waited for"
    wait_for(lambda: len(last_words(receiver, "well", "/hook")) or None, SECONDS)
    wait_for(lambda: len(last_words(receiver, "broken", "/hook")) or None, SECONDS)
    kill(server.process.pid)  # while one hangs, and one may be tried again
    server.process.wait(SECONDS)
    again = cluster.start()
    assert set(statuses(again, *names).values()) == {"succeeded"}

    def delivered():
        states = [
            each["state"]
            for name in names
            for each in again.get(f"/predictions/{name}/deliveries").json()["results"]
        ]
        return states if len(states) == 4 and "pending" not in states else None

    assert wait_for(delivered, SECONDS) == ["delivered", "delivered", "failed", "delivered"]
    for name in ("broken", "hanging", "well"):
        told = [request.json["status"] for request in receiver.at(f"/hook/{name}")]
        assert told == sorted(told, key=lambda status: status in FINAL), "completed comes last"
        assert len({id_ for id_, _ in last_words(receiver, name, "/hook")}) == 1
    cluster.assert_run(*names)


def test_a_receiver_that_is_down_is_told_by_the_next_server(cluster):
    port = free_port()
    first = cluster.start()
    submit(first, "told", envelope={"webhook": f"http://127.0.0.1:{port}/hook"})
    assert statuses(first, "told") == {"told": "succeeded"}
    first.process.terminate()
    assert first.process.wait(SECONDS) == 0
    Door.took = []
    cluster.start()
    with ThreadingHTTPServer(("127.0.0.1", port), Door) as door:
        threading.Thread(target=door.serve_forever, args=(0.02,), daemon=True).start()
        wait_for(lambda: Door.took or None, SECONDS)
        door.shutdown()
    assert [status for _, status in Door.took] == ["succeeded"]
    cluster.assert_run("told")


def test_a_dead_receiver_does_not_slow_down_another(cluster):
    with Receiver() as slow, Receiver() as quick:
        slow.answer("/hook", Answer(delay=8))
        server = cluster.start()
        names = [f"n{number}" for number in range(10)]
        for name in names:
            submit(server, f"slow-{name}", envelope={"webhook": f"{slow.url}/hook"})
            submit(server, name, webhook=quick.url)
        assert_told_once(quick, dict.fromkeys(names, "succeeded"))
        assert not [each for each in slow.requests if each.json["status"] in FINAL]
        kill(server.process.pid)
