"""A queue to its limit: all are accepted, run once and in order, and the records page over them.

1,000 predictions; 10,000 and a kill in the middle with FAULTS=full.
"""

from pathlib import Path
from typing import Any

from tests.cog_adapt.faults.cluster import IS_FULL, full, kill, record, submit
from tests.cog_adapt.waiting import wait_for

COUNT = 10_000 if IS_FULL else 1_000
LONG = 600.0
NAMES = [f"n{number:05}" for number in range(COUNT)]


def memory_of(server):
    """Resident bytes of the front process."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def pages(server, **query):
    """All records of all pages, oldest first."""
    results, cursor = [], None
    while True:
        more: dict[Any, Any] = {"cursor": cursor} if cursor else {}
        page = server.get("/predictions", params={"limit": "500", **query, **more}).json()
        results += page["results"]
        cursor = page["next"]
        if cursor is None:
            return results[::-1]


def until_idle(server):
    def look():
        health = server.health()["status"]
        left = pages(server, status="starting,processing") if health == "READY" else [None]
        return True if not left else None

    wait_for(look, LONG)


def growth(server, name):
    """Bytes by which the front process has grown after another full queue has run."""
    before = memory_of(server)
    for each in NAMES:
        submit(server, f"{name}-{each}")
    until_idle(server)
    return memory_of(server) - before


def test_a_full_queue_runs_in_order_and_once(cluster):
    server = cluster.start(env={"MAX_QUEUE": str(COUNT)})
    submit(server, "first", action="gate")
    cluster.until_begun("first")
    for name in NAMES:
        submit(server, name)
    body = {"input": {"name": "too many"}}
    for prefer in ("respond-async", "wait=1", ""):
        answer = server.request("POST", "/predictions", body, headers={"Prefer": prefer})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert f"at most {COUNT}" in answer.json()["error"]
    assert record(server, NAMES[0])["queue_position"] == 1
    assert record(server, NAMES[-1])["queue_position"] == COUNT
    assert [each["id"] for each in pages(server)] == ["first", *NAMES]
    cluster.open_gate()
    until_idle(server)
    assert cluster.book("begun") == ["first", *NAMES]
    found = pages(server)
    assert [each["id"] for each in found] == ["first", *NAMES]
    assert {each["status"] for each in found} == {"succeeded"}
    # a heap may grow once more, on a busy machine; what keeps ended predictions grows each time
    grown = [growth(server, name) for name in ("again", "still")]
    assert min(grown) < max(8 * 2**20, 2_000 * COUNT), "ended predictions are kept in memory"


@full
def test_a_long_queue_outlives_a_kill_in_its_middle(cluster):
    first = cluster.start(env={"MAX_QUEUE": str(COUNT)})
    submit(first, "first", action="gate")
    cluster.until_begun("first")
    for name in NAMES:
        submit(first, name)
    cluster.open_gate()
    wait_for(lambda: len(cluster.book("begun")) > COUNT // 3 or None, LONG)
    kill(first.process.pid)
    first.process.wait(20)
    second = cluster.start(env={"MAX_QUEUE": str(COUNT)}, until="up")
    until_idle(second)
    ended = {each["id"]: each["status"] for each in pages(second)}
    assert list(ended) == ["first", *NAMES]
    begun = cluster.book("begun")
    assert len(begun) == len(set(begun))
    failed = [name for name, status in ended.items() if status != "succeeded"]
    assert len(failed) <= 1
    assert set(ended) - set(begun) <= set(failed)
    assert [name for name in ended if name in set(begun)] == begun, "not in order"
