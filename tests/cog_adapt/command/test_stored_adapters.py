"""The adapters in a folder, found and changed without a model or a server."""

import pytest

from cog_adapt.command.stored_adapters import StoredAdapters
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import AdapterNotFound
from cog_adapt.runner.storage.decisions import Decision
from cog_adapt.runner.storage.store import AdapterStore
from cog_adapt.server.errors import InputError
from tests.cog_adapt.runner.storage.made import adapter_of


@pytest.fixture
def settings(tmp_path):
    return RunnerSettings(weights_dir=tmp_path)


@pytest.fixture
def folder(settings):
    """The adapters of two owners and of nobody."""
    store = AdapterStore(settings.weights_dir / "adapters")
    made = {number: adapter_of(number) for number in (1, 2, 3)}
    for owner, number in (("", 1), ("ada", 2), ("bob", 2), ("bob", 3)):
        store.put(made[number], owner)
    return {number: adapter.id for number, adapter in made.items()}


def test_a_folder_without_any_has_none(settings):
    assert list(StoredAdapters(settings).list()) == []


def test_all_owners_adapters_are_there_newest_first(settings, folder):
    stored = StoredAdapters(settings)
    found = [(each["owner"], each["id"]) for each in stored.list()]
    assert found == [("bob", folder[3]), ("bob", folder[2]), ("ada", folder[2]), ("", folder[1])]
    assert [each["id"] for each in stored.list(owner="ada")] == [folder[2]]


def test_one_is_meant_by_id_name_or_version_of_its_owner(settings, folder):
    stored = StoredAdapters(settings)
    for number in (3, 2):
        stored.change(folder[number], {"name": "a"}, owner="bob")
    assert stored.get("a")["id"] == folder[2]
    assert stored.get("a@v1")["id"] == folder[3]
    assert [each["version"] for each in stored.list(name="a")] == [1, 2]
    assert stored.get(folder[2], owner="ada")["owner"] == "ada"


def test_one_is_written_to_a_file_and_removed(settings, folder, tmp_path):
    stored = StoredAdapters(settings)
    path = stored.download(folder[1], tmp_path)
    assert path.read_bytes() == adapter_of(1).to_bytes()
    with pytest.raises(InputError, match="the format peft needs the model"):
        stored.download(folder[1], tmp_path, format="peft")
    assert stored.remove(folder[1])["children"] == []
    assert folder[1] not in [each["id"] for each in StoredAdapters(settings).list()]


def test_one_that_nobody_owns_is_given_to_an_owner_with_its_name(settings, folder):
    stored = StoredAdapters(settings)
    stored.change(folder[1], {"name": "support"}, owner="")
    given = stored.give("support", "ada")
    assert (given["owner"], given["name"], given["version"]) == ("ada", "support", 1)
    store = AdapterStore(settings.weights_dir / "adapters")
    assert store.get("support", "ada").to_bytes() == adapter_of(1).to_bytes()
    with pytest.raises(AdapterNotFound):
        store.get(folder[1], "")
    stored.change(folder[3], {"name": "support"}, owner="bob")
    assert stored.give("support", "ada", owner="bob")["version"] == 2  # 1 is given
    for number, receiver, says in (
        (2, "bob", "has adapter .* already"),
        (2, "a b", "write 1 to 64"),
    ):
        with pytest.raises(ValueError, match=says):
            stored.give(folder[number], receiver, owner="ada")


def test_how_it_was_made_is_given_too(settings, folder):
    store = AdapterStore(settings.weights_dir / "adapters")
    decision = Decision("a" * 32, "b" * 16, folder[1], {}, {"made": "so"})
    store.decisions.keep("", decision)
    StoredAdapters(settings).give(folder[1], "ada")
    decisions = AdapterStore(settings.weights_dir / "adapters").decisions
    kept = decisions.of_adapter("ada", folder[1])
    assert kept is not None
    assert kept.receipt == {"made": "so"}
    assert decisions.of_adapter("", folder[1]) is None
