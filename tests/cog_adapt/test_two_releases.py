"""The release before and this one serve one PostgreSQL together, so an upgrade has no gap.

`UPGRADE_SECONDS` is how long they do (`make upgrade`: ten minutes).
"""

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import bench
from bench.house.tree_server import Server
from tests.cog_adapt.sharing_servers import ADA, ask, shared_database
from tests.cog_adapt.waiting import wait_until

ROOT = Path(bench.__file__).parents[1]
BEFORE = "92aee39"  # the last commit whose servers do not ask one another
SECONDS = float(os.environ.get("UPGRADE_SECONDS", "8"))
UNFINISHED = "SELECT id FROM records WHERE status IN ('starting', 'processing')"
ASYNC = {"Prefer": "respond-async"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The sources of the release before."""
    folder = tmp_path_factory.mktemp("before")
    names = ("cog_adapt", "server", "gradient_check")
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", BEFORE, *names], capture_output=True, check=False
    )
    if packed.returncode:
        pytest.skip(f"no commit {BEFORE} here: a clone with its history has it")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    return folder


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with shared_database(tmp_path_factory.mktemp("shared")) as shared:
        yield shared


@pytest.fixture
def both(shared, tree):
    """A server of each release: the earlier one began when the tables were still its own."""
    env = {
        "DATABASE_URL": shared.url,
        "API_KEYS_FILE": str(shared.folder / "keys"),
        "COG_TRAIN_TYPE_STUB": "sleeper.py:Sleeper",
        "COG_MAX_CONCURRENCY": "4",
    }
    early = Server(
        tree=tree,
        folder=shared.folder,
        data=shared.folder,
        predict="sleeper.py:Sleeper",
        key="ada-key",
        env=env,
    )
    with ExitStack() as stack:
        earlier = stack.enter_context(early.running())
        [present] = stack.enter_context(shared.servers(1, COG_MAX_CONCURRENCY="4"))
        yield earlier, present


class Load:
    """Requests of many kinds to two servers, and what became of them."""

    def __init__(self, urls):
        self.urls = urls
        self.accepted: dict[str, str] = {}
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.numbers = iter(range(10**9))
        self.lock = threading.Lock()

    def run(self, until):
        choose = random.Random(threading.get_ident())
        while time.monotonic() < until:
            with self.lock:
                number = next(self.numbers)
            self.step(choose, f"mixed{number}")

    def step(self, choose, name):
        noun = "trainings" if choose.random() < 0.1 else "predictions"
        body = {"input": {"text": name, "seconds": choose.choice((0, 0.05, 0.3))}}
        here, there = choose.sample(self.urls, 2)
        kind = choose.choice(("wait", "async", "put"))
        headers = {} if kind == "wait" else ASYNC
        if kind == "put":
            self.ask(kind, here, "PUT", f"/{noun}/{name}", body, **headers)
            self.ask(kind, there, "PUT", f"/{noun}/{name}", body, **headers)
        else:
            self.ask(kind, here, "POST", f"/{noun}", body | {"id": name}, **headers)
        self.accepted[name] = noun
        if choose.random() < 0.3:
            self.ask("cancel", choose.choice(self.urls), "POST", f"/{noun}/{name}/cancel")
        if choose.random() < 0.5:
            self.ask("get", there, "GET", f"/{noun}/{name}")

    def ask(self, what, server, *request, **headers):
        status, _ = ask(server, *request, **headers)
        self.statuses[(what, status)] += 1


class At:
    """A server by its URL alone."""

    def __init__(self, url):
        self.url = url


def test_both_releases_serve_one_database_and_the_later_goes_on_alone(both, shared):
    earlier, present = both
    load = Load([At(str(earlier.http.base_url).rstrip("/")), present])
    until = time.monotonic() + SECONDS
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(load.run, [until] * 4))
    allowed = {("wait", 200), ("async", 202), ("put", 200), ("put", 202), ("get", 200)}
    # the earlier release does not know what runs elsewhere; this one cannot ask it
    allowed |= {("cancel", status) for status in (200, 404, 503)}
    assert set(load.statuses) <= allowed, load.statuses
    wait_until(lambda: not shared.sql(UNFINISHED), 60)
    ended = dict(shared.sql("SELECT id, status FROM records"))
    assert ended.keys() == load.accepted.keys()
    assert {"succeeded"} <= set(ended.values()) <= {"succeeded", "canceled"}
    ends = Counter(ended.values())
    sys.stdout.write(
        f"{SECONDS:g} s: {dict(ends)} of {len(ended)}; {sorted(load.statuses.items())}\n"
    )
    begun = Counter((shared.folder / "begun").read_text().split())
    assert {name: runs for name, runs in begun.items() if runs > 1} == {}
    accepted = sorted(load.accepted.items())
    for name, noun in random.Random(0).sample(accepted, min(50, len(accepted))):
        for server in load.urls:
            assert status_of(server, noun, name) == ended[name]

    body = {"input": {"text": "left", "seconds": 1.0}, "retries": 1, "id": "left"}
    assert ask(load.urls[0], "POST", "/predictions", body, **ASYNC)[0] == 202
    wait_until(lambda: shared.runs("left") == 1)
    earlier.kill()
    wait_until(lambda: status_of(present, "predictions", "left") == "succeeded", 60)
    assert shared.runs("left") == 2


def status_of(server, noun, name):
    status, body = ask(server, "GET", f"/{noun}/{name}", **ADA)
    assert status == 200, body
    return body["status"]
