"""The index follows what worker after worker says of adapters."""

import pytest
import structlog

from cog_adapt.server.adapter_messages import AdaptersListed
from cog_adapt.server.errors import StorageError
from tests.cog_adapt.server.service.keeping import ADA, described, encoded, player


@pytest.fixture
def play(tmp_path):
    return player(tmp_path)


def test_each_worker_says_anew_what_there_is(play):
    async def scene(keeper):
        keeper.say_all("a", "b")
        assert await keeper.ids() == ["a", "b"]
        keeper.lead.on_exit("killed")
        assert await keeper.ids() == ["a", "b"]
        keeper.say_all("b", "c")
        assert await keeper.ids() == ["b", "c"]

    play(scene)


def test_a_list_that_lacks_some_forgets_none(play):
    async def scene(keeper):
        keeper.say_all("a")
        assert await keeper.ids() == ["a"]
        keeper.lead.on_exit("killed")
        keeper.say_all("b", is_whole=False)
        assert await keeper.ids() == ["a", "b"]

    play(scene)


def test_a_change_while_the_list_is_on_its_way_is_newer_than_the_list(play):
    async def scene(keeper):
        keeper.change("a", notes="new")
        keeper.forget("b")
        keeper.change("d")
        keeper.say_all("a", "b", "c")
        assert await keeper.ids() == ["a", "c", "d"]
        assert (await keeper.adapters.find(ADA, "a"))["notes"] == "new"
        keeper.forget("a")
        assert await keeper.ids() == ["c", "d"]

    play(scene)


def test_a_list_of_a_dead_worker_is_not_that_of_the_next_one(play):
    async def scene(keeper):
        keeper.say_all("a")
        keeper.lead.on_exit("killed")
        keeper.say_all("b")
        assert await keeper.ids() == ["b"]

    play(scene)


def test_what_the_database_did_not_take_is_written_by_the_next_question(play, monkeypatch):
    async def scene(keeper):
        write = keeper.records.adapters.write

        async def fail(changes):
            raise StorageError("disk full")

        monkeypatch.setattr(keeper.records.adapters, "write", fail)
        keeper.change("a")
        with pytest.raises(StorageError):
            await keeper.ids()
        monkeypatch.setattr(keeper.records.adapters, "write", write)
        assert await keeper.ids() == ["a"]

    play(scene)


@pytest.mark.parametrize(("has_keys", "count"), [(True, 7), (True, 0), (False, 7)])
def test_where_keys_are_set_what_nobody_owns_is_named_once(play, tmp_path, has_keys, count):
    is_said = has_keys and count > 0

    async def scene(keeper):
        found = [
            described(f"n{number}", owner="") | {"name": f"old{number}"} for number in range(count)
        ]
        found += [described("open", owner="", shared=["*"]), described("a")]
        with structlog.testing.capture_logs() as lines:
            for _ in range(2):
                for part, is_last in ((found, False), ([], True)):
                    keeper.lead.on_report(AdaptersListed(encoded(part), is_last=is_last))
                await keeper.adapters.settle()
                keeper.lead.on_exit("killed")
        said = [each for each in lines if "nobody owns" in each["event"]]
        assert len(said) == is_said
        if is_said:
            assert "cog-adapt adapters give NAME OWNER" in said[0]["event"]
            assert (said[0]["count"], said[0]["adapters"]) == (7, [f"old{n}" for n in range(5)])

    play(scene, **({"api_keys_file": tmp_path / "keys"} if has_keys else {}))
