"""What is asked of adapters beside the index."""

import asyncio
import tempfile
from pathlib import Path

import msgspec
import pytest

from cog_adapt.server.adapter_messages import AdapterChanged, AdaptersAnswered, AskAdapters
from cog_adapt.server.errors import DiskFull, NotFound, NotReady
from cog_adapt.server.files.temp_files import remove_temp_files
from cog_adapt.server.protocol import Ready
from cog_adapt.server.service import adapter_link
from tests.cog_adapt.server.service.keeping import ADA, described, player


@pytest.fixture
def play(tmp_path):
    return player(tmp_path)


def test_what_a_dead_worker_leaves_of_a_folder_goes_with_its_files(play):
    async def scene(keeper):
        async with keeper.adapters.temporary_folder() as folder:
            assert folder.parent == Path(tempfile.gettempdir())
            assert folder.name.startswith(keeper.lead.prefix)
            (folder / "x").touch()
        assert not folder.exists()
        async with keeper.adapters.temporary_folder() as folder:
            (folder / "x").touch()
            remove_temp_files(keeper.lead.prefix)
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


def test_to_forget_asks_a_worker_that_keeps_adapters_and_no_other(play):
    async def scene(keeper):
        asked = []

        async def ask(*question, **more):
            asked.append((*question[:2], more["adapter_id"]))

        keeper.lead.adapters.ask = ask
        await keeper.adapters.forget("ada", "k1")
        await keeper.adapters.forget("ada")
        assert asked == [("forget", "ada", "k1"), ("forget", "ada", "")]
        for ready in (msgspec.structs.replace(keeper.lead.ready, has_adapters=False), None):
            keeper.lead.ready = ready
            await keeper.adapters.forget("ada")
        assert len(asked) == 2

    play(scene)


async def removing(keeper):
    """Remove an adapter, as far as the worker that does it."""
    keeper.trainer.ready = Ready(has_adapters=True)
    begun = asyncio.Event()

    async def ask(action, owner, *_, adapter_id, **__):
        keeper.lead.on_report(AdapterChanged(owner, adapter_id, None))
        begun.set()
        return {"removed": True, "children": []}

    keeper.lead.adapters.ask = ask
    asked = asyncio.ensure_future(keeper.adapters.remove(described("a")))
    await begun.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    return asked


def test_other_servers_are_told_of_a_removal_before_it_begins_and_when_it_is_done(play):
    async def scene(keeper):
        index, numbers = keeper.records.adapters, []

        async def ask(action, *_, **__):
            if action == "remove":
                numbers.append(await index.read_last())
                assert await index.own("ada") == []
            return {"removed": True, "children": []}

        keeper.lead.adapters.ask = ask
        keeper.change("a")
        assert await keeper.ids() == ["a"]
        numbers.append(await index.read_last())
        await keeper.adapters.remove(described("a"))
        assert await keeper.ids() == []
        assert [*numbers, await index.read_last()] == [1, 2, 3]

    play(scene)


@pytest.mark.parametrize("fault", [DiskFull("full"), NotReady("gone")])
def test_what_could_not_be_removed_is_there_for_all(play, fault):
    async def scene(keeper):
        async def ask(*_, **__):
            raise fault

        keeper.lead.adapters.ask = ask
        keeper.change("a")
        assert await keeper.ids() == ["a"]
        with pytest.raises(type(fault)):
            await keeper.adapters.remove(described("a"))
        assert await keeper.ids() == ["a"]
        assert await keeper.records.adapters.read_last() == 3

    play(scene)


def test_a_removal_is_answered_when_each_other_worker_has_taken_note(play):
    async def scene(keeper):
        asked = await removing(keeper)
        (note,) = keeper.trainer_process.said
        assert note == AskAdapters(note.number, "note", "ada", "a", changes=b"null")
        assert not asked.done()
        keeper.trainer.on_report(AdaptersAnswered(note.number))
        assert (await asked)["removed"] is True
        assert keeper.trainer_process.kills == []

    play(scene)


def test_a_worker_that_takes_no_note_is_ended(play, monkeypatch):
    monkeypatch.setattr(adapter_link, "NOTE_SECONDS", 0.01)

    async def scene(keeper):
        assert (await (await removing(keeper)))["removed"] is True
        (cause,) = keeper.trainer_process.kills
        assert "did not take note that an adapter had changed" in cause

    play(scene)
