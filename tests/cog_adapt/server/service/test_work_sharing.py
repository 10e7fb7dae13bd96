"""What changes hands between servers is run by one of them."""

import asyncio
from typing import Any

from cog_adapt.server.service.work_sharing import WorkSharing
from tests.cog_adapt.waiting import assert_stays_so, until


class Peers:
    """Stands for the database: one look for what was taken, which tells late what it saw."""

    is_shared = True

    def __init__(self):
        self.taken: set[Any] = set()
        self.looks = 0
        self.answers = asyncio.Event()

    async def find_moved(self, keys):
        seen = self.taken & set(keys)
        self.looks += 1
        await self.answers.wait()
        return seen


def test_what_comes_back_while_a_server_looks_for_what_was_taken_is_kept(play):
    async def scene(harness):
        peers: Any = Peers()
        dispatcher = harness.dispatcher
        sharing = WorkSharing({"predict": dispatcher}, peers, lambda: True, dispatcher)
        await harness.submit("runs")
        waiting = await harness.submit("waits", is_async=True)
        peers.taken = {waiting.key}
        dropping = asyncio.create_task(sharing.drop_moved([waiting]))
        await until(lambda: peers.looks)

        async def take_back():
            async with sharing.taking():
                peers.taken.clear()
                if waiting.key not in dispatcher.predictions:
                    await dispatcher.submit(waiting.request, is_recovered=True)

        taking = asyncio.create_task(take_back())
        await assert_stays_so(lambda: not dropping.done(), 0.01)
        peers.answers.set()
        await asyncio.gather(dropping, taking)
        assert (waiting.key in dispatcher.predictions, len(dispatcher.waiting)) == (True, 1)

    play(scene)
