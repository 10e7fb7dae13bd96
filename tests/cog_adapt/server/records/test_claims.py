"""A claim is one server's at a time, and ends with its server."""

import asyncio

from tests.cog_adapt.server.records.test_leases import EXPIRE


def test_a_claim_is_of_one_server_until_it_is_released(postgresql_home):
    async def story():
        async with postgresql_home.opened() as one, postgresql_home.opened() as other:
            place = ("ada", "k")
            assert await one.claims.take(*place)
            assert await one.claims.take(*place)  # what a failed release left
            assert not await other.claims.take(*place)
            assert await other.claims.take("bob", "k")
            await other.claims.release(*place)  # it is not its own
            assert not await other.claims.take(*place)
            await one.claims.release(*place)
            assert await other.claims.take(*place)

    asyncio.run(story())


def test_a_claim_of_a_dead_server_counts_for_nothing(postgresql_home):
    async def story():
        async with postgresql_home.opened() as one, postgresql_home.opened() as other:
            for key in ("k", "l"):
                assert await one.claims.take("ada", key)
            with postgresql_home.connected() as connection:
                connection.exec_driver_sql(EXPIRE + f" WHERE id = '{one.server}'")
            assert await other.claims.take("ada", "k")
            await other.take_over()
            with postgresql_home.connected() as connection:
                left = connection.exec_driver_sql("SELECT key FROM adaptation_claims").all()
            assert left == [("k",)]

    asyncio.run(story())


def test_an_sqlite_whose_servers_are_on_one_host_has_none(sqlite_home):
    async def story():
        async with sqlite_home.opened() as records:
            assert records.claims is None

    asyncio.run(story())
