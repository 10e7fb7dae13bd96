"""Which server works on what, and who goes on when one dies."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from cog_adapt.server.errors import StorageError
from cog_adapt.server.records import leases
from cog_adapt.server.records.server_tables import servers
from tests.cog_adapt.server.records.home import make_delivery, make_record
from tests.cog_adapt.waiting import until

EXPIRE = "UPDATE servers SET host = 'elsewhere', lease_until = '2020-01-01 00:00:00+00:00'"


def kill_a_server(home, saves=3) -> list[str]:
    """A server that was killed, and what it left."""
    server = home.start_crashing_server("v")
    names = [server.stdout.readline().strip() for _ in range(saves)]
    server.kill()
    names += server.stdout.read().split()
    server.stdout.close()
    server.wait()
    return names


def test_what_a_killed_server_left_is_taken_over_at_once(home):
    names = kill_a_server(home)

    async def story():
        async with home.opened() as records:
            taken = await records.take_over()
            left = [record.id for record in taken]
            assert left[: len(names)] == names
            assert {record.payload for record in taken} == {'{"n":1}'}
            assert {record.server for record in taken} == {records.server}
            assert await records.take_over() == []

    asyncio.run(story())


def test_two_starters_share_what_is_left_and_get_nothing_twice(home):
    names = kill_a_server(home, saves=50)

    async def story():
        async with home.opened() as one, home.opened() as other:
            both = await asyncio.gather(
                *[records.take_over() for records in (one, other) for _ in range(3)]
            )
            taken = [record.id for some in both for record in some]
            assert sorted(taken) == sorted(set(taken))
            assert set(taken) >= set(names)

    asyncio.run(story())


def test_a_living_server_keeps_its_work(home):
    async def story():
        async with home.opened() as one, home.opened() as other:
            await one.save_durably(make_record(1, status="processing"))
            assert await other.take_over() == []
            assert await one.take_over() == []

    asyncio.run(story())


def test_a_server_of_another_host_is_dead_when_its_lease_has_run_out(home):
    async def story():
        async with home.opened() as one:
            await one.save_durably(make_record(1, status="processing"))
            await one.save_durably(make_record(2, status="succeeded"))
            with home.connected() as connection:
                connection.exec_driver_sql(EXPIRE)
            async with home.opened() as other:
                assert [record.id for record in await other.take_over()] == ["r1"]

    asyncio.run(story())


def renewed(home):
    """The servers whose lease is not the one that `EXPIRE` wrote."""
    query = "SELECT id FROM servers WHERE lease_until <> '2020-01-01 00:00:00+00:00'"
    with home.connected() as connection:
        return connection.exec_driver_sql(query).all()


def test_the_lease_is_renewed(home, monkeypatch):
    monkeypatch.setattr("cog_adapt.server.records.leases.BEAT_SECONDS", 0.05)

    async def story():
        async with home.opened() as records:
            with home.connected() as connection:
                connection.exec_driver_sql(EXPIRE)
            await until(lambda: renewed(home) == [(records.server,)])

    asyncio.run(story())


def test_a_closed_server_leaves_its_work_to_others(home):
    async def story():
        async with home.opened() as one:
            await one.save_durably(make_record(1, status="starting"), [make_delivery(1)])
        async with home.opened() as other:
            assert [record.id for record in await other.take_over()] == ["r1"]
            due = await other.due_deliveries(make_delivery(1).created_at, 10)
            assert [delivery.id for delivery in due] == ["d1"]

    asyncio.run(story())


def test_a_server_taken_for_dead_cannot_undo_what_its_heir_does(home):
    async def story():
        async with home.opened() as sleeper, home.opened() as successor:
            running = make_record(1, status="processing")
            await sleeper.save_durably(running)
            with home.connected() as connection:
                connection.exec_driver_sql(EXPIRE + f" WHERE id = '{sleeper.server}'")
            await successor.take_over()
            with pytest.raises(StorageError, match="another server"):
                await sleeper.save_durably(make_record(1), [make_delivery(1)])
            sleeper.save(make_record(1), [make_delivery(1)])
            assert await sleeper.deliveries("r1", "predict") == []
            await successor.save_durably(make_record(1, status="failed"))
            with pytest.raises(StorageError, match="another server"):
                await sleeper.save_durably(make_record(1))
            assert (await successor.get("r1", "predict")).status == "failed"

    asyncio.run(story())


def test_a_finished_id_may_be_run_anew_by_any_server(home):
    async def story():
        async with home.opened() as one, home.opened() as other:
            await one.save_durably(make_record(1))
            deferred = make_record(2).created_at
            await other.save_durably(make_record(1, status="starting", created_at=deferred))
            assert (await one.get("r1", "predict")).status == "starting"

    asyncio.run(story())


class Clock(datetime):
    """A wall clock that somebody sets forward by a day."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(days=1)


def test_a_wall_clock_that_is_set_forward_takes_nothing_from_a_living_server(home, monkeypatch):
    async def story():
        async with home.opened() as one, home.opened() as other:
            await one.save_durably(make_record(1, status="processing"))
            monkeypatch.setattr(leases, "datetime", Clock)
            with home.connected() as connection:
                connection.exec_driver_sql("UPDATE servers SET host = host || '-another-container'")
            assert await other.take_over() == []

    asyncio.run(story())


BOOT = datetime(1970, 1, 1, tzinfo=UTC)


def seconds_since_boot(seconds):
    """The moment of a lease, as SQLite's servers write it."""
    return BOOT + timedelta(seconds=time.clock_gettime(time.CLOCK_BOOTTIME) + seconds)


@pytest.mark.parametrize(
    ("container", "lease_until", "is_dead"),
    [
        ("{name}/{boot}/pid:[1]", lambda: seconds_since_boot(-1), True),
        ("{name}/{boot}/pid:[1]", lambda: seconds_since_boot(60), False),
        # from before the machine was started again
        ("{name}/boot0/pid:[1]", lambda: seconds_since_boot(60), True),
        # an earlier release wrote leases by the wall clock
        ("{name}/{boot}/pid:[1]", lambda: datetime.now(UTC) - timedelta(seconds=1), True),
        ("{name}/{boot}/pid:[1]", lambda: datetime.now(UTC) + timedelta(seconds=60), False),
    ],
)
def test_in_another_container_of_the_machine_the_lease_counts(
    sqlite_home, container, lease_until, is_dead
):
    async def story():
        async with sqlite_home.opened() as one, sqlite_home.opened() as other:
            await one.save_durably(make_record(1, status="processing"))
            with sqlite_home.connected() as connection:
                its = servers.c.id == one.server
                host = connection.scalar(select(servers.c.host).where(its))
                name, boot, _ = host.split("/")
                host = container.format(name=name, boot=boot)
                change = update(servers).where(its)
                connection.execute(change.values(host=host, lease_until=lease_until()))
            assert [each.id for each in await other.take_over()] == ["r1"] * is_dead

    asyncio.run(story())
