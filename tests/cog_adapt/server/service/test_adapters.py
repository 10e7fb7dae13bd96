"""The index follows what worker after worker says of adapters."""

import asyncio
import tempfile
from pathlib import Path

import msgspec
import pytest

from cog_adapt.server.adapter_messages import AdapterChanged, AdaptersListed
from cog_adapt.server.errors import NotFound, StorageError
from cog_adapt.server.protocol import Ready
from cog_adapt.server.records.adapter_pages import AdapterQuery, Asker
from cog_adapt.server.service.adapters import Adapters
from tests.cog_adapt.server.service.harness import Harness

ADA = Asker("ada")


class Keeper:
    """A worker that says things."""

    def __init__(self, harness):
        self.lead = harness.dispatcher.lead
        self.lead.ready = Ready(has_adapters=True)
        self.model = harness.model
        self.records = harness.records
        self.adapters = Adapters(harness.service)

    def change(self, name, **more):
        self.lead.on_report(AdapterChanged("ada", name, encoded(described(name, **more))))

    def forget(self, name):
        self.lead.on_report(AdapterChanged("ada", name, None))

    def say_all(self, *names, is_whole=True):
        found = [described(name) for name in names]
        self.lead.on_report(AdaptersListed(encoded(found), is_last=False))
        self.lead.on_report(AdaptersListed(b"[]", is_last=True, is_whole=is_whole))

    async def ids(self):
        await asyncio.sleep(0)  # a request comes later than what was said before
        page = await self.adapters.page(ADA, AdapterQuery.of(100, None))
        return sorted(msgspec.json.decode(each)["id"] for each in page.adapters)


def described(name, **more):
    return {"id": name, "owner": "ada", "created_at": None} | more


encoded = msgspec.json.encode


@pytest.fixture
def play(tmp_path):
    def run(scene):
        async def story():
            harness = Harness(tmp_path)
            await harness.records.register()
            keeper = Keeper(harness)
            try:
                await asyncio.wait_for(scene(keeper), 30)
            finally:
                await keeper.adapters.settle()
                await harness.webhooks.close()
                await harness.records.close()

        asyncio.run(story())

    return run


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


def test_what_a_dead_worker_leaves_of_a_folder_goes_with_its_files(play):
    async def scene(keeper):
        keeper.model.prefix = "tmp01234567_"
        async with keeper.adapters.temporary_folder() as folder:
            assert folder.parent == Path(tempfile.gettempdir())
            assert folder.name.startswith(keeper.model.prefix)
            (folder / "x").touch()
        assert not folder.exists()

    play(scene)


def test_one_that_has_gone_meanwhile_is_not_found_in_the_same_words(play):
    async def scene(keeper):
        with pytest.raises(NotFound) as unknown:
            await keeper.adapters.find(ADA, "a")

        async def ask(*_, **__):
            raise NotFound("AdapterNotFound: other words")

        keeper.lead.adapters.ask = ask
        with pytest.raises(NotFound) as gone:
            await keeper.adapters.remove(described("a"))
        assert str(gone.value) == str(unknown.value)

    play(scene)
