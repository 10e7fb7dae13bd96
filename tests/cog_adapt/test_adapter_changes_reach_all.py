"""DELETE, un-share and re-name reach each worker of a server before they are answered."""

import hashlib
import multiprocessing
import re
import textwrap

import pytest
from typer.testing import CliRunner

from cog_adapt.command.app import app
from cog_adapt.runner.errors import AdapterNotFound, InputError
from cog_adapt.runner.storage.changes import apply_changes
from cog_adapt.runner.storage.remote import Remote
from cog_adapt.runner.storage.store import AdapterStore
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.runner.storage.made import adapter_of
from tests.cog_adapt.waiting import wait_for

KEYS = {
    "ada-key": "ada predict,train",
    "bob-key": "bob predict,train",
    "eve-key": "eve admin",
}
ADA, BOB, EVE = ({"Authorization": f"Bearer {key}"} for key in KEYS)
CODE = """
    from cog import BaseRunner

    from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, answer
    from tests.cog_adapt.models import Letters, examples


    class Learner(BaseRunner):
        def setup(self) -> None:
            self.runner = ModelRunner(Letters(), RunnerSettings.from_environment())

        async def run(self, adapter: str = "", learn: int = 0) -> str:
            if learn:
                rows = examples("letters", seed=learn)
                made = await self.runner.submit_adaptation(rows, Recipe(max_steps=1)).wait_async()
                self.runner.store.put(made.adapter, self.runner.asker_of(self.scope.context).owner)
                return made.adapter.id
            found = await answer(self.runner, Request(["abc"], adapter=adapter), self.scope)
            return found.adapter

        train = run
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    (folder / "learner.py").write_text(textwrap.dedent(CODE))
    lines = [f"{who} {hashlib.sha256(key.encode()).hexdigest()}" for key, who in KEYS.items()]
    (folder / "keys").write_text("\n".join(lines))
    env = {"WEIGHTS_DIR": str(folder / "weights"), "API_KEYS_FILE": str(folder / "keys")}
    reference = "learner.py:Learner"
    with serving(
        "mirror", folder, predict=reference, train=reference, env=env, until="up"
    ) as server:
        wait_for(lambda: server.get("/readyz", headers=ADA).status_code == 200 or None, 120)
        server.folder = folder
        yield server


def ask(server, noun, headers, **values):
    """Return what a run of a kind has used or made; None where it found no adapter."""
    body = server.post(f"/{noun}", {"input": values}, headers=headers).json()
    if body["status"] == "failed":
        assert "is not known here" in body["error"], body
        return None
    return body["output"]


@pytest.fixture
def warm(server):
    """An adapter of ada's that both workers have in memory, and that bob may use."""
    made = ask(server, "predictions", ADA, learn=1)
    change(server, made, name="support", shared=["bob"])
    for noun in ("predictions", "trainings"):
        for headers in (ADA, BOB):
            assert ask(server, noun, headers, adapter="support") == made
    return made


def change(server, adapter_id, **changes):
    answer = server.request("PATCH", f"/adapters/{adapter_id}", changes, headers=ADA)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("noun", ["predictions", "trainings"])
def test_a_change_is_everywhere_once_it_is_answered(server, warm, noun):
    change(server, warm, name="other")
    assert ask(server, noun, ADA, adapter="support") is None
    assert ask(server, noun, ADA, adapter="other") == warm
    change(server, warm, shared=[])
    for reference in (warm, "other"):
        assert ask(server, noun, BOB, adapter=reference) is None
    assert server.request("DELETE", "/adapters/other", headers=ADA).status_code == 200
    for reference in (warm, "other"):
        assert ask(server, noun, ADA, adapter=reference) is None


def test_what_a_training_makes_is_everywhere_too_and_goes_with_its_owner(server, warm):
    made = ask(server, "trainings", BOB, learn=2)
    assert server.get(f"/adapters/{made}", headers=BOB).json()["owner"] == "bob"
    for noun in ("predictions", "trainings"):
        assert ask(server, noun, BOB, adapter=made) == made
    assert server.request("DELETE", "/owners/bob/data", headers=BOB).status_code == 200
    for noun in ("predictions", "trainings"):
        assert ask(server, noun, BOB, adapter=made) is None


def command(folder, *arguments):
    environ = {"WEIGHTS_DIR": str(folder / "weights"), "API_KEY": "eve-key"}
    return CliRunner(env=environ).invoke(app, ["adapters", *arguments])


def test_what_an_admin_gives_is_the_receivers_everywhere_once_the_command_has_ended(server, warm):
    url = ("--url", server.url)
    given = command(server.folder, "give", "support", "bob", "--owner", "ada", *url)
    assert given.exit_code == 0
    assert re.fullmatch(rf"given to bob: {warm} support@v\d+\n", given.stderr)
    for noun in ("predictions", "trainings"):
        assert ask(server, noun, BOB, adapter="support") == warm
    assert server.get(f"/adapters/{warm}", headers=BOB).json()["owner"] == "bob"
    assert command(server.folder, "give", warm, "ada", "--owner", "bob", *url).exit_code == 0
    assert server.get(f"/adapters/{warm}", headers=ADA).json()["owner"] == "ada"
    change(server, warm, shared=[])
    for noun in ("predictions", "trainings"):
        assert ask(server, noun, BOB, adapter=warm) is None


@pytest.mark.parametrize("arguments", [("give", "bob"), ("name", "other"), ("rm",)])
def test_a_folder_that_a_server_runs_on_is_changed_at_the_server_alone(server, warm, arguments):
    what, *more = arguments
    done = command(server.folder, what, warm, *more, "--owner", "ada")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: a server, or another command, runs on this folder")
    assert "Name the server with --url" in done.stderr
    assert ask(server, "predictions", ADA, adapter="support") == warm


@pytest.mark.parametrize(
    ("headers", "changes", "status", "says"),
    [
        (ADA, {"owner": "bob"}, 403, "only a key with the scope `admin`"),
        (EVE, {"owner": "bob", "notes": "n"}, 422, "owner must be changed alone"),
        (EVE, {"owner": "a b"}, 422, "owner is 'a b'; it has 1 to 64"),
        (EVE, {"owner": None}, 422, "owner is 'None'; it has 1 to 64"),
        (EVE, {"owner": "ada"}, 422, "'ada' has adapter .* already"),
    ],
)
def test_another_owner_is_named_alone_by_an_admin(server, warm, headers, changes, status, says):
    answer = server.request("PATCH", f"/adapters/{warm}", changes, headers=headers)
    assert answer.status_code == status
    assert re.search(says, answer.text)


# Two processes on one folder that do not hear of each other, as two servers


def change_in(store, number, **changes):
    adapter_id = adapter_of(number).id
    return store.change(adapter_id, "ann", lambda known, n: apply_changes(known, changes, n))


def name_some(folder, first, barrier, results):
    """Give one name to ten adapters, as fast as it goes."""
    store = AdapterStore(folder)
    barrier.wait(60)
    for number in range(first, first + 10):
        results.put(change_in(store, number, name="support").version)


def test_two_processes_never_give_one_version_of_a_name_twice(tmp_path):
    store = AdapterStore(tmp_path)
    for number in range(20):
        store.put(adapter_of(number), "ann")
    spawning = multiprocessing.get_context("spawn")
    barrier, results = spawning.Barrier(2), spawning.Queue()
    processes = [
        spawning.Process(target=name_some, args=(tmp_path, first, barrier, results))
        for first in (0, 10)
    ]
    for process in processes:
        process.start()
    versions = sorted(results.get(timeout=120) for _ in range(20))
    for process in processes:
        process.join(60)
    assert versions == [*range(1, 21)]


@pytest.fixture
def pair(tmp_path):
    """Two stores on a folder; both have used an adapter that ann shares with all."""
    here = AdapterStore(tmp_path)
    here.put(adapter_of(1), "ann")
    change_in(here, 1, name="support", shared=("*",))
    there = AdapterStore(tmp_path)
    for store in (here, there):
        assert store.get("support", "bob").id == adapter_of(1).id
    return here, there


def test_to_write_a_use_undoes_no_change_of_another_process(pair, tmp_path):
    here, there = pair
    change_in(here, 1, shared=())
    there.close()  # the uses are written
    for store in (there, AdapterStore(tmp_path)):
        with pytest.raises(AdapterNotFound):
            store.get("support", "bob")
    assert AdapterStore(tmp_path).known("support", "ann").hits > 0


def test_to_write_a_use_brings_nothing_back_that_another_process_removed(pair, tmp_path):
    here, there = pair
    here.remove(adapter_of(1).id, "ann")
    there.close()
    assert AdapterStore(tmp_path).describe(None) == []


def test_what_another_process_has_made_meanwhile_is_given_and_nothing_is_given_twice(tmp_path):
    here, there = AdapterStore(tmp_path), AdapterStore(tmp_path)
    made = adapter_of(1)
    here.put(made, "ann")
    assert there.give(made.id, "ann", "bob").owner == "bob"  # it looked for ann's
    here.put(adapter_of(2), "ann")
    there.put(adapter_of(2), "bob")
    with pytest.raises(InputError, match="'bob' has adapter .* already"):
        here.give(adapter_of(2).id, "ann", "bob")  # it looked for bob's
    assert here.get(adapter_of(2).id, "ann").id == adapter_of(2).id


def test_a_folder_is_in_use_while_a_store_that_serves_is_open(tmp_path):
    asked = AdapterStore(tmp_path / "new")
    serving_one = AdapterStore(tmp_path / "new", serves=True)
    assert not asked.is_served()  # there is nothing to change
    serving_one.put(adapter_of(1))
    assert asked.is_served()
    again = AdapterStore(tmp_path / "new", serves=True)
    serving_one.close()
    assert asked.is_served()
    again.close()
    assert not asked.is_served()


def test_a_change_keeps_what_another_process_has_changed(pair):
    here, there = pair
    change_in(here, 1, notes="n")
    assert change_in(there, 1, pinned=True).notes == "n"


def test_one_that_is_told_knows_it_so_from_memory_too(pair):
    here, there = pair
    adapter_id = adapter_of(1).id
    earlier = here.known("support", "ann")
    change_in(here, 1, shared=())
    there.note(adapter_id, "ann", earlier)  # news that comes late: the files are newer
    assert there.get("support", "ann").id == adapter_id
    with pytest.raises(AdapterNotFound):
        there.get("support", "bob")
    there.note(adapter_id, "ann", None)
    for reference in ("support", adapter_id):
        with pytest.raises(AdapterNotFound):
            there.get(reference, "bob")
    assert there.gauges()["adapters_memory_entries"] == 0


def test_one_that_is_told_nothing_sees_it_at_its_next_look(pair):
    here, there = pair
    change_in(here, 1, name="other", shared=())
    assert there.get("other", "ann").id == adapter_of(1).id  # what is not found is looked for
    with pytest.raises(AdapterNotFound):
        there.get("other", "bob")
    here.remove(adapter_of(1).id, "ann")
    assert there.describe("ann") == []
    with pytest.raises(AdapterNotFound):
        there.get("other", "ann")
    assert here.describe("ann") == []


@pytest.fixture
def copies(tmp_path):
    """Two stores with folders of their own, which copy one remote store."""
    remote = Remote(f"file://{tmp_path}/far")
    here, there = (AdapterStore(tmp_path / name, remote=remote) for name in ("here", "there"))
    here.put(adapter_of(1), "ann")
    change_in(here, 1, name="support", shared=("*",))
    assert there.get("support", "ann").id == adapter_of(1).id
    return here, there


def test_what_a_copy_is_told_stays_so_after_a_restart(copies, tmp_path):
    here, there = copies
    adapter_id = adapter_of(1).id
    there.close()  # writes a use, and so the metadata
    known = change_in(here, 1, shared=())
    there.note(adapter_id, "ann", known)
    for store in (there, AdapterStore(tmp_path / "there", remote=Remote(f"file://{tmp_path}/far"))):
        with pytest.raises(AdapterNotFound):
            store.get("support", "bob")
    here.remove(adapter_id, "ann")
    there.note(adapter_id, "ann", None)
    assert AdapterStore(tmp_path / "there").describe(None) == []
