"""What a server left at commit b702e72 is opened, read and gone on with by the present one."""

import contextlib
import json
import re
import sqlite3
import tarfile
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean

import pytest

import bench
from bench.house.old_data import ENDED, LARGE, OWED, PUT, TEXTS, actions_server, tickets_server
from bench.house.tree_server import wait_for
from gradient_check.tests.present import present
from tests.cog_adapt.contract.receivers import Receiver

ROOT = Path(bench.__file__).parents[1]
MADE = ROOT / "tests" / "cog_adapt" / "data" / "made_at_b702e72.tar.gz"
AGELESS = {"RETENTION_DAYS": "100000", "ADAPTER_DAYS": "0", "CHECKPOINT_DAYS": "100000"}
LEFT = {"owed": "succeeded", "again": "succeeded", "never": "failed", "queued": "succeeded"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The archive, unpacked."""
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(MADE) as archive:
        archive.extractall(folder, filter="data")
    keys = folder / "keys"  # what was there before owners is seen by `admin` alone
    keys.write_text(keys.read_text().replace(" predict,train ", " admin "))
    made_at = (folder / "made.json").stat().st_mtime
    assert made_at < time.time(), "the clock is wrong: the old server would count as alive"
    return folder


@pytest.fixture(scope="module")
def made(folder):
    """What the old server told."""
    return json.loads((folder / "made.json").read_text())


@pytest.fixture(scope="module")
def receiver():
    """Where the old server was to send webhooks; who has this port is alone with the archive."""

    def take_port():
        with contextlib.suppress(OSError):
            return Receiver(int(OWED.rpartition(":")[2]))

    with wait_for(take_port) as receiver:
        yield receiver


@pytest.fixture(scope="module")
def actions(folder, made, receiver):
    """The present server on the folder of the small predictor, whose model need not wait."""
    (folder / "actions" / "open").touch()
    with _at_any_age(actions_server(ROOT, folder, made["key"])).running() as client:
        yield client


@pytest.fixture(scope="module")
def tickets(folder, made):
    """The present `predict.py` and `train.py` on the old adapters, one of them the default."""
    server = _at_any_age(tickets_server(ROOT, folder, made["key"]))
    settings = {"COG_WEIGHTS": str(server.data / "trained.safetensors"), "SELF_TEST": "off"}
    with replace(server, env={**server.env, **settings}).running() as client:
        yield client


def _at_any_age(server):
    """The archive only gets older, and is to be read for as long as it is kept."""
    return replace(server, env={**server.env, **AGELESS})


def predictions(client, **more):
    return client.ask("POST", "/predictions", {"input": {"texts": TEXTS, **more}})["output"]


def assert_same(new, old):
    """Another machine may round otherwise; the adapter's id is a digest of all its bits."""
    assert new["adapter"] == old["adapter"]
    for one, other in zip(new["predictions"], old["predictions"], strict=True):
        assert one["label"] == other["label"]
        assert one["scores"] == pytest.approx(other["scores"], abs=1e-4)


def tables_of(path):
    """Every table and index of a database, and the state of its migrations."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
        version = connection.execute("SELECT version_num FROM alembic_version")
        return sorted(tables, key=str), version.fetchall()


@pytest.mark.parametrize("name", ENDED)
def test_a_record_reads_as_it_was_written(actions, made, name):
    assert actions.account(name) == made["actions"]["accounts"][name]


def test_all_records_are_listed_newest_first(actions):
    for name in LEFT:
        actions.ended(name)
    page = actions.ask("GET", "/predictions?limit=1000")["results"]
    assert {record["id"] for record in page} == {*ENDED, *LEFT}
    times = [record["created_at"] for record in page]
    assert times == sorted(times, reverse=True)


def test_a_put_is_answered_by_what_had_run(actions, made, folder):
    assert actions.ask("PUT", "/predictions/chosen", PUT) == made["actions"]["replayed"]
    other = actions.http.put("/predictions/chosen", json={"input": {"text": "other"}})
    assert other.status_code == 409
    begun = (folder / "actions" / "begun").read_text().splitlines()
    assert not {"chosen", "other"} & set(begun)


def test_what_was_left_is_taken_over_and_ends_as_it_should(actions, folder):
    ended = {name: actions.ended(name) for name in LEFT}
    assert {name: record["status"] for name, record in ended.items()} == LEFT
    assert ended["again"]["output"] == ["again", "AGAIN"]
    assert ended["queued"]["output"] == [LARGE, LARGE.upper()]
    assert ended["never"]["error"] == "The server ended while it ran."
    begun = (folder / "actions" / "begun").read_text().splitlines()
    assert Counter(begun) == Counter(["again", LARGE[:40]])


def webhooks_at(receiver, path):
    return receiver.at(path) or None


def test_owed_webhooks_are_delivered(actions, made, receiver):
    for name, status in LEFT.items():
        wait_for(partial(webhooks_at, receiver, f"/{name}"), 20.0)
        (request,) = receiver.at(f"/{name}")
        assert (request.json["id"], request.json["status"]) == (name, status)
    (owed,) = made["actions"]["owed"]["deliveries"]
    assert receiver.at("/owed")[0].headers["webhook-id"] == owed["id"]
    (now,) = wait_for(
        lambda: (
            (d := actions.account("owed")["deliveries"])[0]["state"] == "delivered" and d or None
        )
    )
    assert now["attempts"] > owed["attempts"]
    assert actions.record("owed") == made["actions"]["owed"]["record"]


def test_the_key_file_opens_and_closes(actions):
    """The fixtures ask with its key."""
    for key in ("", "Bearer ca_other"):
        answer = actions.http.get("/predictions", headers={"Authorization": key})
        assert answer.status_code == 401


def test_the_tables_are_those_of_a_new_database(actions, folder, made, tmp_path):
    new = actions_server(ROOT, folder, made["key"])
    with replace(new, data=tmp_path).running():
        pass
    old = folder / "actions" / ".data" / "records.db"
    assert tables_of(old) == tables_of(tmp_path / ".data" / "records.db")


@pytest.mark.parametrize(
    ("kind", "group", "name"),
    [("predictions", "accounts", "adapted"), ("trainings", "trainings", "trained")],
)
def test_a_record_of_an_adaptation_reads_as_it_was_written(tickets, made, kind, group, name):
    assert tickets.account(name, kind) == made["tickets"][group][name]


def test_old_adapters_answer_as_they_did(tickets, made):
    old = made["tickets"]
    assert_same(predictions(tickets, adapter=old["by_id"]["adapter"]), old["by_id"])
    assert_same(predictions(tickets), old["by_weights"])  # of COG_WEIGHTS


def test_the_killed_training_goes_on_from_its_checkpoint(tickets, made, folder):
    killed = tickets.ended("killed", "trainings")
    assert killed["status"] == "succeeded", killed
    first = int(present(re.match(r"step (\d+)/60 ", killed["logs"])).group(1))
    assert first in (21, 41)  # kept every 20 steps
    whole = made["tickets"]["trainings"]["trained"]["record"]["output"]["report"]
    report = killed["output"]["report"]
    assert report["losses"][: first - 1] == whole["losses"][: first - 1]
    # Steps are taken in parts since, and each draws a dropout of its own: equal in the mean alone.
    assert mean(report["losses"][first:]) == pytest.approx(mean(whole["losses"][first:]), rel=0.1)
    weights = folder / "tickets" / "weights"
    assert (weights / "adapters" / f"{report['adapter']}.safetensors").exists()
    assert not list((weights / "checkpoints").iterdir())
