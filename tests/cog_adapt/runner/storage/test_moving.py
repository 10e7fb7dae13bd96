"""Two folders with equal versions of one name become one store, in which nothing is lost."""

import shutil
from dataclasses import replace

import pytest

from cog_adapt.runner.errors import AdapterNotFound, StoreError
from cog_adapt.runner.storage.budgets import StorageBudgets
from cog_adapt.runner.storage.changes import apply_changes
from cog_adapt.runner.storage.decisions import Decision
from cog_adapt.runner.storage.moving import StoreMove
from cog_adapt.runner.storage.remote import Remote
from cog_adapt.runner.storage.store import AdapterStore
from gradient_check.tests.present import present
from tests.cog_adapt.runner.storage.made import adapter_of

pytest.importorskip("obstore", reason="obstore is not installed")
FIRST, SECOND, THIRD, REMOVED, BOTH, BASE_ANSWERS = (adapter_of(number) for number in range(1, 7))
UNBOUNDED = StorageBudgets(2**40, 2**40, 2**40, 2**40)


def name(store, adapter, text):
    return store.change(
        adapter.id, "ann", lambda known, version: apply_changes(known, {"name": text}, version)
    )


def decided(number, adapter):
    return Decision(f"{number:032x}", "b" * 16, adapter.id, {}, {"format": f"of {number}"})


@pytest.fixture
def folders(tmp_path):
    """Each server's own: `support@v1` is another adapter in each, and one adapter is in both."""
    one, two = AdapterStore(tmp_path / "one"), AdapterStore(tmp_path / "two")
    for store, adapters in ((one, (FIRST, BOTH)), (two, (SECOND, THIRD, REMOVED, BOTH))):
        for number, adapter in enumerate(adapters):
            store.put(adapter, "ann")
            store.decisions.keep("ann", decided(number + 10 * (store is two), adapter))
    two.put(BASE_ANSWERS)
    for adapter in (SECOND, THIRD, REMOVED):
        name(two, adapter, "support")
    name(one, FIRST, "support")
    name(one, BOTH, "shared")
    name(two, BOTH, "other")
    two.change(BOTH.id, "ann", lambda known, _: replace(known, pinned=True, shared=("bob",)))
    two.remove(REMOVED.id, "ann")
    return [tmp_path / "one", tmp_path / "two"]


def move(folder, remote):
    """Return what got another name, by id, and the number of decisions."""
    moving = StoreMove(folder, remote)
    renamed = {
        moved.known.id: (moved.name_before, f"{moved.known.name}@v{moved.known.version}")
        for moved in moving.adapters()
        if moved.name_before is not None
    }
    return renamed, moving.decisions()


def check(url, folder):
    """What servers with empty folders find in the store."""
    store = AdapterStore(folder, UNBOUNDED, Remote(url))
    expected = {"support@v1": FIRST, "support@v4": SECOND, "support@v5": THIRD, "support": THIRD}
    for reference, adapter in expected.items():
        assert store.get(reference, "ann").to_bytes() == adapter.to_bytes(), reference
    for reference in ("support@v2", "support@v3"):
        with pytest.raises(AdapterNotFound):
            store.get(reference, "ann")
    assert store.get(BASE_ANSWERS.id).to_bytes() == BASE_ANSWERS.to_bytes()
    both = store.known(BOTH.id, "ann")
    assert (both.name, both.version, both.pinned, both.shared) == ("shared", 1, True, ("bob",))
    for number, adapter in ((0, FIRST), (1, BOTH), (10, SECOND), (11, THIRD), (13, BOTH)):
        found = present(store.decisions.find("ann", f"{number:032x}"))
        assert (found.adapter, found.receipt) == (adapter.id, {"format": f"of {number}"})
    store.put(REMOVED, "ann")
    assert name(store, REMOVED, "support").version == 6


def test_the_seconds_versions_get_new_numbers_and_all_is_found(tmp_path, folders):
    url = f"file://{tmp_path}/far"
    assert move(folders[0], Remote(url)) == ({}, 2)
    assert move(folders[1], Remote(url)) == (
        {
            SECOND.id: ("support@v1", "support@v4"),
            THIRD.id: ("support@v2", "support@v5"),
            BOTH.id: ("other@v1", "shared@v1"),
        },
        3,
    )
    for folder in folders:
        assert move(folder, Remote(url)) == ({}, 0)
    check(url, tmp_path / "new")


def test_a_server_serves_on_from_its_folder_by_the_new_names(tmp_path, folders):
    url = f"file://{tmp_path}/far"
    for folder in folders:
        move(folder, Remote(url))
    check(url, folders[1])


class CutOff(Remote):
    """A store that fails from one write on."""

    def __init__(self, url, writes):
        super().__init__(url)
        self._left = writes

    def _count(self):
        self._left -= 1
        if self._left < 0:
            raise StoreError("cut off")

    def write(self, key, content):
        self._count()
        super().write(key, content)

    def write_metadata(self, key, known):
        self._count()
        super().write_metadata(key, known)

    def next_version(self, place, name, above=0, mark=""):
        self._count()
        return super().next_version(place, name, above, mark)

    def write_decision(self, place, name, content):
        self._count()
        super().write_decision(place, name, content)


def test_a_move_that_is_cut_off_at_any_write_can_be_repeated(tmp_path, folders):
    writes, is_done = 0, False
    while not is_done:
        place = tmp_path / f"cut-{writes}"
        url = f"file://{place}/far"
        for folder in folders:
            shutil.copytree(folder, place / folder.name)
        move(place / "one", Remote(url))
        try:
            move(place / "two", CutOff(url, writes))
            is_done = True
        except StoreError:
            move(place / "two", Remote(url))
        check(url, place / "new")
        writes += 1
    assert writes > 10


def test_what_the_store_has_already_stays(tmp_path):
    """A folder whose server has used the store all along is a copy of it."""
    url = f"file://{tmp_path}/far"
    store = AdapterStore(tmp_path / "near", UNBOUNDED, Remote(url))
    for adapter in (FIRST, SECOND):
        store.put(adapter, "ann")
        name(store, adapter, "support")
    store.close()
    assert move(tmp_path / "near", Remote(url)) == ({}, 0)
    again = AdapterStore(tmp_path / "new", UNBOUNDED, Remote(url))
    assert again.get("support@v1", "ann").id == FIRST.id
    assert again.get("support", "ann").id == SECOND.id
