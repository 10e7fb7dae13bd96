"""Claims to adaptations are granted in their order, and end with their worker."""

import asyncio
from typing import Any

import pytest

from cog_adapt.server.adapter_messages import Claim, Claimed, Unclaim
from cog_adapt.server.errors import StorageError
from cog_adapt.server.service import adaptation_claims
from cog_adapt.server.service.adaptation_claims import AdaptationClaims
from tests.cog_adapt.server.service.keeping import player
from tests.cog_adapt.waiting import assert_stays_so, until


@pytest.fixture
def play(tmp_path):
    return player(tmp_path)


def told(process):
    """What a worker was told of its claims."""
    return [(each.number, each.is_held) for each in process.said if isinstance(each, Claimed)]


def test_equal_claims_are_granted_one_after_the_other(play):
    async def scene(keeper):
        for worker, number in ((keeper.lead, 1), (keeper.trainer, 1), (keeper.lead, 2)):
            worker.on_report(Claim(number, "ada", "k"))
        assert told(keeper.model) == [(1, True), (2, False)]
        assert told(keeper.trainer_process) == [(1, False)]
        keeper.trainer.on_report(Unclaim(1))  # it waits no longer
        keeper.lead.on_report(Unclaim(1))
        assert told(keeper.model) == [(1, True), (2, False), (2, True)]
        keeper.lead.on_report(Unclaim(2))
        keeper.lead.on_report(Claim(3, "ada", "k"))
        assert told(keeper.model)[-1] == (3, True)

    play(scene)


def test_other_keys_and_other_owners_do_not_wait(play):
    async def scene(keeper):
        for number, (owner, key) in enumerate((("ada", "k"), ("ada", "l"), ("bob", "k"))):
            keeper.lead.on_report(Claim(number, owner, key))
        assert told(keeper.model) == [(0, True), (1, True), (2, True)]

    play(scene)


def test_the_claims_of_a_process_end_with_it(play):
    async def scene(keeper):
        keeper.trainer.on_report(Claim(1, "ada", "k"))
        keeper.lead.on_report(Claim(1, "ada", "k"))
        keeper.trainer.on_exit("was killed")
        assert told(keeper.model) == [(1, False), (1, True)]

    play(scene)


class Rows(Any):
    """Stands for the claims of other servers."""

    def __init__(self):
        self.taken = {("ada", "k")}
        self.mine = set()
        self.error = None

    async def take(self, *place):
        if self.error:
            raise self.error
        self.mine |= {place} - self.taken
        return place in self.mine

    async def release(self, *place):
        self.mine.remove(place)


class Worker(Any):
    """A worker that hears of its claims."""

    def __init__(self):
        self.said = []

    def send(self, request):
        self.said.append(request)


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setattr(adaptation_claims, "LOOK_SECONDS", 0.001)
    return Rows()


def test_a_claim_waits_for_another_server_and_tells_so(rows):
    async def scene():
        claims, worker = AdaptationClaims(rows), Worker()
        claims.ask(worker, Claim(1, "ada", "k"))
        await until(lambda: (1, False) in told(worker))
        rows.taken.clear()
        await until(lambda: (1, True) in told(worker))
        claims.ask(worker, Claim(2, "ada", "k"))
        assert told(worker)[-1] == (2, False)
        claims.release(worker, 1)
        assert told(worker)[-1] == (2, True)
        assert rows.mine == {("ada", "k")}
        claims.release(worker, 2)
        await until(lambda: not rows.mine)

    asyncio.run(scene())


def test_one_that_left_before_its_turn_leaves_no_row(rows):
    async def scene():
        claims, worker = AdaptationClaims(rows), Worker()
        claims.ask(worker, Claim(1, "ada", "k"))
        await until(lambda: told(worker))
        claims.release(worker, 1)
        rows.taken.clear()
        await assert_stays_so(lambda: not rows.mine, 0.05)

    asyncio.run(scene())


def test_a_database_that_is_away_is_waited_for(rows, monkeypatch):
    monkeypatch.setattr(adaptation_claims, "RETRY_SECONDS", 0.001)

    async def scene():
        rows.error = StorageError("restarting")
        claims, worker = AdaptationClaims(rows), Worker()
        claims.ask(worker, Claim(1, "ada", "k"))
        await assert_stays_so(lambda: not worker.said, 0.1)
        rows.error = None
        await until(lambda: (1, False) in told(worker))
        rows.taken.clear()
        await until(lambda: told(worker)[-1] == (1, True))

    asyncio.run(scene())


def test_without_the_database_for_a_whole_lease_each_server_grants_its_own(rows, monkeypatch):
    monkeypatch.setattr(adaptation_claims, "LEASE_SECONDS", 0.0)

    async def scene():
        rows.error = StorageError("no database")
        claims, worker = AdaptationClaims(rows), Worker()
        claims.ask(worker, Claim(1, "ada", "k"))
        await until(lambda: told(worker) == [(1, True)])

    asyncio.run(scene())


def test_claims_that_ended_with_the_lease_are_taken_again(rows):
    async def scene():
        rows.taken.clear()
        claims, worker = AdaptationClaims(rows), Worker()
        claims.ask(worker, Claim(1, "ada", "k"))
        await until(lambda: told(worker) == [(1, True)])
        rows.mine.clear()
        rows.taken.add(("ada", "k"))  # another server took this one for dead
        claims.take_again()
        await until(lambda: told(worker)[-1] == (1, False))
        rows.taken.clear()
        await until(lambda: told(worker)[-1] == (1, True))

    asyncio.run(scene())
