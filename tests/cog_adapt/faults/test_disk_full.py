"""The disk of the database is full: synchronous work goes on, nothing that was accepted is lost."""

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from tests.cog_adapt.faults.cluster import SECONDS, assert_told_once, record, statuses, submit
from tests.cog_adapt.waiting import wait_for


@pytest.fixture
def small_disk(tmp_path):
    """A file system of three megabytes, and what takes all of its room."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(file: Path) -> None:
    """Take all the room there is."""
    with file.open("wb", buffering=0) as opened, contextlib.suppress(OSError):
        while True:
            opened.write(b"0" * 4096)


def predict(server, name, **headers):
    body = {"id": name, "input": {"name": name}}
    return server.request("POST", "/predictions", body, headers=headers)


def test_a_full_disk_stops_only_what_it_must(cluster, receiver, small_disk):
    server = cluster.start(env={"DATA_DIR": str(small_disk)})
    submit(server, "before", webhook=receiver.url, action="gate")
    submit(server, "queued", webhook=receiver.url)
    cluster.until_begun("before")
    fill(small_disk / "filler")
    cluster.open_gate()
    done = [f"sync{number}" for number in range(60)]
    for name in done:  # until the pages that SQLite had reserved are used up
        assert predict(server, name).json()["status"] == "succeeded"
    wait_for(lambda: "records" in server.get("/readyz").json() or None, SECONDS)
    assert server.get("/readyz").status_code == 503
    answer = predict(server, "refused", Prefer="respond-async")
    assert answer.status_code == 503
    assert "make room" in answer.json()["error"]
    assert_told_once(receiver, {"before": "succeeded", "queued": "succeeded"})
    (small_disk / "filler").unlink()
    wait_for(lambda: "records" not in server.get("/readyz").json() or None, SECONDS)
    submit(server, "after", webhook=receiver.url)
    names = ["before", "queued", *done, "after"]
    assert set(statuses(server, *names).values()) == {"succeeded"}
    assert server.get("/predictions/refused").status_code == 404
    server.process.terminate()
    assert server.process.wait(SECONDS) == 0
    again = cluster.start(env={"DATA_DIR": str(small_disk)})
    assert {record(again, name)["status"] for name in names} == {"succeeded"}
    assert_told_once(receiver, dict.fromkeys(("before", "queued", "after"), "succeeded"))
    cluster.assert_run(*names)
