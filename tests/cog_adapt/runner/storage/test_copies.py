"""Copies of a store in the folder of a server that was down while others changed the store."""

import json
from dataclasses import replace

import pytest

from cog_adapt.runner.errors import AdapterNotFound, StoreError
from cog_adapt.runner.storage import folder, remote
from cog_adapt.runner.storage.budgets import StorageBudgets
from cog_adapt.runner.storage.changes import apply_changes
from cog_adapt.runner.storage.objects import open_objects
from cog_adapt.runner.storage.remote import Remote
from cog_adapt.runner.storage.store import AdapterStore
from tests.cog_adapt.runner.storage.made import adapter_of

pytest.importorskip("obstore", reason="obstore is not installed")
ID = adapter_of(1).id
EXPIRED = "2020-01-01T00:00:00.000000+00:00"


def change_in(store, number, owner="ann", **changes):
    """Change an adapter's metadata as a PATCH does."""
    return store.change(
        adapter_of(number).id, owner, lambda known, version: apply_changes(known, changes, version)
    )


@pytest.fixture
def far(tmp_path):
    return tmp_path / "far"


@pytest.fixture
def begin(tmp_path, far):
    """Start a store on the folder of a server, as its process does."""

    def begun(name):
        budgets = StorageBudgets(0, 0, 2**40, 2**40)
        return AdapterStore(tmp_path / name, budgets, remote=Remote(f"file://{far}"))

    return begun


@pytest.fixture
def here(begin):
    """A server that runs, while `there` is down; both have ann's `support`, shared with all."""
    here, there = begin("here"), begin("there")
    here.put(adapter_of(1), "ann")
    change_in(here, 1, name="support", shared=("*",))
    assert there.get("support", "ann").id == there.get(ID, "bob").id == ID
    there.close()
    return here


def files(folder):
    return sorted(path.name for path in folder.rglob(f"{ID}*"))


def assert_gone(store, *references, owners=("ann", "bob")):
    for reference in references:
        for owner in owners:
            with pytest.raises(AdapterNotFound):
                store.get(reference, owner)


@pytest.mark.parametrize("first", ["get", "describe", "known", "change", "remove"])
def test_what_was_removed_meanwhile_is_gone(begin, here, tmp_path, far, first):
    here.remove(ID, "ann")
    there = begin("there")
    if first == "describe":
        assert there.describe(None) == []
    elif first == "change":
        with pytest.raises(AdapterNotFound):
            change_in(there, 1, name="again")
    elif first != "get":
        with pytest.raises(AdapterNotFound):
            getattr(there, first)(ID, "ann")
    assert_gone(there, ID, "support")
    assert there.describe(None) == []
    assert files(tmp_path / "there") == files(far) == []


def test_what_was_removed_meanwhile_is_not_sent_when_the_disk_lets_go(begin, here, tmp_path, far):
    change_in(here, 1, name=None)
    begin("there").describe("ann")
    here.remove(ID, "ann")
    size = len(adapter_of(1).to_bytes())
    store = Remote(f"file://{far}")
    there = AdapterStore(tmp_path / "there", StorageBudgets(0, 0, size, size), remote=store)
    there.put(adapter_of(2), "ann")
    assert files(far) == []
    assert [known.id for known in begin("third").describe(None)] == [adapter_of(2).id]


def test_what_was_unshared_and_renamed_meanwhile_is_so(begin, here, tmp_path):
    change_in(here, 1, shared=(), name="other")
    there = begin("there")
    assert_gone(there, ID, "support", "other", owners=["bob"])
    assert_gone(there, "support", owners=["ann"])
    assert there.get("other", "ann").id == ID
    there.close()
    assert_gone(begin("there"), ID, owners=["bob"])


def test_a_name_that_was_given_anew_meanwhile_means_the_new_version(begin, here):
    here.remove(ID, "ann")
    here.put(adapter_of(2), "ann")
    assert change_in(here, 2, name="support").version == 2
    there = begin("there")
    assert there.get("support", "ann").id == there.get("support@v2", "ann").id == adapter_of(2).id
    assert_gone(there, ID, "support@v1")


def test_equal_content_that_was_learnt_anew_meanwhile_lives_without_its_earlier_name(begin, here):
    here.remove(ID, "ann")
    here.put(adapter_of(1), "ann")
    there = begin("there")
    assert there.get(ID, "ann").id == ID
    assert_gone(there, ID, "support", owners=["bob"])


@pytest.mark.parametrize("is_reachable", [True, False])
def test_what_is_learnt_anew_here_has_nothing_of_the_removed_one(begin, here, far, is_reachable):
    here.remove(ID, "ann")
    there = begin("there")
    if not is_reachable:
        far.rename(far.with_name("away"))
        far.write_text("in the way of a folder")
    there.put(adapter_of(1), "ann")
    assert there.get(ID, "ann").id == ID
    for reference in (ID, "support"):
        with pytest.raises(AdapterNotFound if is_reachable else StoreError):
            there.get(reference, "bob")
    there.close()
    if not is_reachable:
        far.unlink()
        far.with_name("away").rename(far)
    assert [known.shared for known in begin("there").describe("ann")] == [()]


def test_until_the_store_can_be_read_its_copies_do_not_answer(begin, here, far):
    here.remove(ID, "ann")
    far.rename(far.with_name("away"))
    far.write_text("in the way of a folder")
    there = begin("there")
    for _ in range(2):
        with pytest.raises(StoreError, match="ADAPTER_STORE"):
            there.get(ID, "ann")
    far.unlink()
    far.with_name("away").rename(far)
    assert_gone(there, ID, "support")


def test_what_the_store_could_not_take_stays_over_a_restart_and_is_sent_later(begin, far):
    far.write_text("in the way of a folder")
    store = begin("there")
    store.put(adapter_of(1), "ann")
    store.close()
    far.unlink()
    store = begin("there")
    assert store.get(ID, "ann").id == ID
    change_in(store, 1, name="support")
    assert begin("here").get("support", "ann").id == ID
    begin("here").remove(ID, "ann")
    assert_gone(begin("there"), ID, "support")


def test_a_change_that_the_store_could_not_take_is_refused(begin, here, far):
    far.rename(far.with_name("away"))
    far.write_text("in the way of a folder")
    for _ in range(2):
        with pytest.raises(StoreError, match="ADAPTER_STORE"):
            change_in(here, 1, shared=())
    assert here.get(ID, "bob").id == ID


def test_a_change_keeps_what_another_server_has_just_changed_or_removed(begin, here):
    there = begin("there")
    assert there.get(ID, "bob").id == ID
    change_in(here, 1, shared=())
    assert change_in(there, 1, notes="n").shared == ()
    here.remove(ID, "ann")
    with pytest.raises(AdapterNotFound):
        change_in(there, 1, name="again")
    assert begin("third").describe(None) == []


@pytest.mark.parametrize("before", ["no store", "another store"])
def test_what_lay_in_the_folder_before_the_store_stays(tmp_path, begin, before):
    first = Remote(f"file://{tmp_path}/first") if before == "another store" else None
    AdapterStore(tmp_path / "near", remote=first).put(adapter_of(1), "ann")
    for _ in range(2):
        store = begin("near")
        assert [known.id for known in store.describe(None)] == [ID]
        assert store.get(ID, "ann").id == ID


@pytest.mark.parametrize("is_of_earlier_release", [False, True])
def test_a_copy_of_tensors_has_the_name_of_the_store(begin, here, tmp_path, is_of_earlier_release):
    there = begin("there")
    if is_of_earlier_release:  # which wrote no metadata beside a copy
        there.close()
        for path in (tmp_path / "there").rglob(f"{ID}.json"):
            path.unlink()
        (tmp_path / "there" / "copy-of").unlink()
        there = begin("there")
    news = []
    there.watch(lambda owner, _, known: news.append((owner, known and known["name"])))
    for _ in range(2):
        assert [known.name for known in there.describe("ann")] == ["support"]
    assert there.get("support", "ann").id == ID
    assert {name for owner, name in news if owner == "ann"} <= {"support"}


def test_a_copy_removes_nothing_by_an_age_that_another_server_has_changed(begin, here, tmp_path):
    (path,) = (tmp_path / "there").rglob(f"{ID}.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"expires_at": EXPIRED}))
    begin("there").put(adapter_of(2), "bob")  # removes what is old
    assert begin("third").get(ID, "ann").id == ID


class Killed(BaseException):
    """The end of a process."""


@pytest.mark.parametrize("step", range(4))
def test_a_removal_that_was_cut_off_is_finished_or_can_be_repeated(
    begin, here, tmp_path, far, monkeypatch, step
):
    """A process dies after some of its four files: two far away, then two here."""
    done: list[object] = []

    def dying(remove):
        def removing(*args):
            if len(done) == step:
                raise Killed
            done.append(args)
            return remove(*args)

        return removing

    def open_dying(url):
        opened = open_objects(url)
        patch.setattr(opened, "remove", dying(opened.remove))
        return opened

    with monkeypatch.context() as patch:
        patch.setattr(remote, "open_objects", open_dying)
        patch.setattr(folder, "remove_file", dying(folder.remove_file))
        with pytest.raises(Killed):
            begin("here").remove(ID, "ann")
    again = begin("here")
    if step > 1:
        assert_gone(again, ID, "support")
    else:
        again.remove(ID, "ann")
    assert again.describe(None) == begin("there").describe(None) == []
    assert files(tmp_path / "here") == files(far) == []


def test_what_a_process_learns_while_it_runs_stays_its_own(begin, here):
    there = begin("there")
    known = change_in(here, 1, notes="n")
    there.note(ID, "ann", replace(known, shared=()))
    assert_gone(there, ID, owners=["bob"])
