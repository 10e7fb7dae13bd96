"""Each server reads what others changed of adapters, in order, and knows how far they have read."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from cog_adapt.server.records import adapter_changes
from cog_adapt.server.records.adapter_changes import AdapterChange
from tests.cog_adapt.server.records.test_adapters import changed, described
from tests.cog_adapt.server.records.test_leases import EXPIRE


def play(home, scene):
    async def story():
        async with home.opened() as one, home.opened() as other:
            for each in (one, other):
                await each.adapters.join()
            await asyncio.wait_for(scene(one, other), 60)

    asyncio.run(story())


def test_others_read_the_last_state_of_each_adapter(home):
    async def scene(one, other):
        await one.adapters.write(changed("a") | changed("b"))
        await one.adapters.write(changed("a", notes="n"))
        await one.adapters.write({("ada", "b"): None})
        last = await one.adapters.note_forgotten("bob", "key")
        read = await other.adapters.changes_after(0)
        assert (read.last, read.is_all, read.are_missed) == (last, True, False)
        now = msgspec.json.encode(described("a", notes="n"))
        assert sorted(read.changes) == [
            AdapterChange("ada", "a", None, now),
            AdapterChange("ada", "b"),
            AdapterChange("bob", "", "key"),
        ]
        assert (await other.adapters.changes_after(last)).changes == []
        own = await one.adapters.changes_after(0)
        assert (own.last, [*own.changes]) == (last, [])

    play(home, scene)


def test_a_use_is_no_change(home):
    async def scene(one, other):
        first = await one.adapters.write(changed("a", hits=1))
        assert await one.adapters.write(changed("a", hits=2)) == 0
        assert (await other.adapters.changes_after(first)).last == first

    play(home, scene)


def test_who_has_not_confirmed_is_behind_until_it_is_dead(home):
    async def scene(one, other):
        number = await one.adapters.write(changed("a"))
        assert await one.adapters.servers_behind(number) == [other.server]
        assert (await other.adapters.changes_after(0)).confirmed == 0
        await other.adapters.confirm(number)
        assert await one.adapters.servers_behind(number) == []
        number = await one.adapters.write(changed("b"))
        with home.connected() as connection:
            connection.exec_driver_sql(EXPIRE + f" WHERE id = '{other.server}'")
        assert await one.adapters.servers_behind(number) == []

    play(home, scene)


def test_a_server_that_has_come_back_is_waited_for(home):
    async def scene(one, other):
        number = await one.adapters.write(changed("a"))
        with home.connected() as connection:
            connection.exec_driver_sql(f"DELETE FROM servers WHERE id = '{other.server}'")
        assert await one.adapters.servers_behind(number) == []
        assert (await other.adapters.changes_after(0)).lease_seconds == 0
        await other.register()
        assert await one.adapters.servers_behind(number) == [other.server]
        assert 5 < (await other.adapters.changes_after(0)).lease_seconds <= 10

    play(home, scene)


def test_a_server_of_an_earlier_release_is_not_waited_for(home):
    async def scene(one, other):
        with home.connected() as connection:
            connection.exec_driver_sql(
                f"UPDATE servers SET applied = NULL WHERE id = '{other.server}'"
            )
        number = await one.adapters.write(changed("a"))
        assert await one.adapters.servers_behind(number) == []

    play(home, scene)


@pytest.mark.parametrize(("read_before", "are_missed"), [(3, False), (1, True), (0, True)])
def test_who_comes_too_late_learns_that_changes_are_missing(
    home, monkeypatch, read_before, are_missed
):
    async def scene(one, other):
        numbers = [await one.adapters.write(changed("a", notes=str(each))) for each in range(3)]
        monkeypatch.setattr(adapter_changes, "KEPT", timedelta(seconds=-60))
        await one.prune(timedelta(days=1), 1000)
        after = ([0] + numbers)[read_before]
        assert (await other.adapters.changes_after(after)).are_missed is are_missed

    play(home, scene)
