"""Which server works on what, and who goes on when one dies."""

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from cog_adapt.server.errors import StorageError
from cog_adapt.server.records import leases
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
            monkeypatch.setattr(leases, "_start_of", lambda _: "")  # as if in another container
            with home.connected() as connection:
                connection.exec_driver_sql("UPDATE servers SET started = ''")
            assert await other.take_over() == []

    asyncio.run(story())


@pytest.fixture
def row(monkeypatch):
    """Makes rows of other containers of this machine, which was started 1,000 s ago."""
    monkeypatch.setattr(leases, "_host", lambda: "here/boot1/pid:[1]")

    def make(lease_until, boot="boot1"):
        return SimpleNamespace(host=f"there/{boot}/pid:[2]", lease_until=lease_until)

    return make


NOW = datetime(1970, 1, 1, 0, 16, 40, tzinfo=UTC)


@pytest.mark.parametrize(("seconds", "is_over"), [(-1, True), (1, False), (10, False)])
def test_on_one_machine_the_seconds_since_the_boot_count(row, seconds, is_over):
    assert leases._is_over_on_host(row(NOW + timedelta(seconds=seconds)), NOW) is is_over


def test_a_server_from_before_the_boot_is_dead(row):
    assert leases._is_over_on_host(row(NOW + timedelta(seconds=10), "boot0"), NOW)


@pytest.mark.parametrize(("seconds", "is_over"), [(-1, True), (10, False)])
def test_a_lease_of_an_earlier_release_runs_on_the_clock_that_it_was_made_with(
    row, seconds, is_over
):
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    assert leases._is_over_on_host(row(until), NOW) is is_over


@pytest.mark.parametrize(("host", "boot"), [("a/b/pid:[1]", "b"), ("a/7", ""), ("elsewhere", "")])
def test_the_boot_is_a_part_of_the_hosts_name(host, boot):
    assert leases._boot_of(host) == boot
