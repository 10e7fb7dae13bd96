"""The index of adapters: filled from a list, kept by changes, and open to few."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from cog_adapt.adapter_rule import Asker
from cog_adapt.server.records.adapter_pages import AdapterQuery

ADA, BOB, ADMIN = Asker("ada"), Asker("bob"), Asker("root", sees_all=True)

OLD, NEVER = datetime(2020, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


def described(adapter_id, owner="ada", **more):
    return {"id": adapter_id, "owner": owner, "created_at": "2026-11-22T10:00:00+00:00", **more}


def encoded(*found):
    return msgspec.json.encode(list(found))


def changed(adapter_id="a", **more):
    found = described(adapter_id, **more)
    return {(found["owner"], found["id"]): msgspec.json.encode(found)}


async def ids(index, asker, **query):
    page = await index.page(asker, AdapterQuery.of(100, None, **query))
    return [msgspec.json.decode(each)["id"] for each in page.adapters]


def play(home, scene):
    async def story():
        async with home.opened() as records:
            await asyncio.wait_for(scene(records.adapters), 30)

    asyncio.run(story())


def test_a_list_is_there_and_what_it_lacks_is_forgotten(home):
    async def scene(index):
        await index.write_list(encoded(described("a", shared=["bob"]), described("b")), OLD, 0)
        start = datetime.now(UTC)
        again = encoded(described("b"), described("c", created_at=None))
        await index.write_list(again, start, 0)
        await index.forget_before(start, 0)
        assert await ids(index, ADA) == ["b", "c"]
        assert await ids(index, BOB) == []
        assert await index.find(ADA, "a", None) is None

    play(home, scene)


def test_what_changed_since_is_newer_than_the_list(home):
    async def scene(index):
        await index.write(changed(notes="new") | {("ada", "b"): None})
        await index.write_list(encoded(described("a"), described("b")), NEVER, 0)
        await index.forget_before(NEVER, 0)
        assert await ids(index, ADA) == ["a"]
        found = msgspec.json.decode(await index.find(ADA, "a", None))
        assert found["notes"] == "new"

    play(home, scene)


def test_a_list_leaves_what_another_process_has_written_since(home):
    async def scene(index):
        start = datetime.now(UTC)
        await index.write_list(encoded(described("a", notes="other"), described("b")), OLD, 0)
        await index.write_list(encoded(described("a")), start, 0)
        await index.forget_before(start, 0)
        assert sorted(await ids(index, ADA)) == ["a", "b"]
        assert msgspec.json.decode(await index.find(ADA, "a", None))["notes"] == "other"

    play(home, scene)


def test_labels_are_those_of_the_last_change_and_gone_with_the_adapter(home):
    async def scene(index):
        await index.write(changed("a", labels=["x", "y"]) | changed("b", labels=["x"]))
        await index.write(changed("a", labels=["y"]))
        assert await ids(index, ADA, label="x") == ["b"]
        assert await ids(index, ADA, label="y") == ["a"]
        number = await index.write({("ada", "a"): None})
        await index.forget_before(datetime.now(UTC), number)
        await index.write(changed("a") | changed("b"))
        assert await ids(index, ADA, label="x") + await ids(index, ADA, label="y") == []

    play(home, scene)


def test_what_is_gone_is_gone_for_its_readers_too(home):
    async def scene(index):
        await index.write(changed(shared=["*"]))
        assert await ids(index, BOB) == ["a"]
        await index.write({("ada", "a"): None})
        assert await ids(index, BOB) == []
        await index.write(changed())  # a new one of the same content is shared with nobody
        assert await ids(index, BOB) == []

    play(home, scene)


def test_old_metadata_has_a_date_without_a_zone_or_none(home):
    async def scene(index):
        naive = described("a", created_at="2026-11-22T10:00:00")
        await index.write_list(encoded(naive, described("b", created_at=None)), OLD, 0)
        page = await index.page(ADA, AdapterQuery.of(1, None))
        rest = await index.page(ADA, AdapterQuery.of(1, page.next_cursor))
        assert [msgspec.json.decode(each)["id"] for each in (*page.adapters, *rest.adapters)] == [
            *("a", "b")
        ]
        await index.forget_before(datetime.now(UTC) - timedelta(hours=1), 0)
        assert await ids(index, ADA) == ["a", "b"]

    play(home, scene)


@pytest.mark.parametrize(("seconds", "is_there"), [(-1, False), (60, True)])
def test_what_has_expired_is_there_for_nobody(home, seconds, is_there):
    async def scene(index):
        end = datetime.now(UTC) + timedelta(seconds=seconds)
        await index.write(changed(expires_at=end.isoformat()))
        for asker in (ADA, ADMIN):
            assert await ids(index, asker) == (["a"] if is_there else [])
            assert (await index.find(asker, "a", None) is not None) is is_there

    play(home, scene)


def test_an_owners_own_are_found_expired_ones_too_and_no_shared_ones(home):
    async def scene(index):
        past = "2020-01-01T00:00:00+00:00"
        await index.write_list(
            encoded(
                described("a", expires_at=past),
                described("b"),
                described("c", owner="bob", shared=["ada"]),
            ),
            OLD,
            0,
        )
        found = [msgspec.json.decode(each)["id"] for each in await index.own("ada")]
        assert sorted(found) == ["a", "b"]
        assert len(await index.own("ada", "a")) == 1
        assert await index.own("ada", "c") == await index.own("eve") == []

    play(home, scene)
