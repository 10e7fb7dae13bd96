"""Moves waiting predictions from busy servers to idle ones of the same database.

The idle server takes the records. The busy one finds, within a second or when it would begin one of
them, that the record is another's, and drops the prediction without an end. So does a server that
was taken for dead with what still runs there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager

from cog_adapt.server.protocol import Kind
from cog_adapt.server.records import Record
from cog_adapt.server.records.batch import Key
from cog_adapt.server.records.peers import PeerServers
from cog_adapt.server.service.dispatcher import Dispatcher
from cog_adapt.server.service.prediction import Prediction


class WorkSharing:
    """The exchange of waiting work with the other servers.

    Args:
        dispatchers: by kind.
        peers: the other servers.
        is_ready: returns whether this server could begin a prediction now.
        main: the dispatcher whose worker starts with the server.
    """

    def __init__(
        self,
        dispatchers: Mapping[Kind, Dispatcher],
        peers: PeerServers,
        is_ready: Callable[[], bool],
        main: Dispatcher,
    ) -> None:
        self._dispatchers = dispatchers
        self._peers = peers
        self._is_ready = is_ready
        self._main = main
        self._taking = asyncio.Lock()
        self._takes = 0

    @asynccontextmanager
    async def taking(self) -> AsyncIterator[None]:
        """Enclose a take of records, to the moment when they run or wait here."""
        async with self._taking:
            try:
                yield
            finally:
                self._takes += 1

    async def offer(self) -> None:
        """Offer what waits here, and drop what others have taken.

        Raises:
            StorageError: the database cannot be used.
        """
        if self._peers.is_shared:
            offered = [each for some in self._dispatchers.values() for each in self._offered(some)]
            await self._peers.say_waiting(len(offered))
            await self.drop_taken()

    async def take(self) -> list[Record]:
        """Take what others offer, as much as could begin; call it within `taking`.

        Returns:
            the records that are now this server's, and are to be run.

        Raises:
            StorageError: the database cannot be used.
        """
        if not (self._peers.is_shared and self._is_ready()):
            return []
        return await self._peers.take_waiting(self._count_free())

    def _offered(self, dispatcher: Dispatcher) -> list[Prediction]:
        """Return what others may take; what waits for a first training's worker begins soon."""
        if dispatcher is not self._main and dispatcher.lead.state == "starting":
            return []
        return [each for each in dispatcher.waiting if each.is_movable]

    async def drop_taken(self) -> None:
        """Drop all that others have taken, also what runs here, if this server seemed dead.

        Raises:
            StorageError: the database cannot be used.
        """
        everything = (
            each for some in self._dispatchers.values() for each in some.predictions.values()
        )
        await self.drop_moved(
            [each for each in everything if each.request.durable or each.request.has_client_id]
        )

    async def drop_moved(self, recorded: Collection[Prediction]) -> None:
        """Drop those that another server has taken.

        Raises:
            StorageError: the database cannot be used.
        """
        if not recorded or not self._peers.is_shared:
            return
        moved = await self._look([each.key for each in recorded])
        # what waits first: the slot of what runs would go to it
        for prediction in sorted(recorded, key=lambda each: each.status == "processing"):
            if prediction.key in moved:
                self._drop(prediction)

    async def _look(self, keys: Sequence[Key]) -> set[Key]:
        """Return what others have taken, by a look during which nothing came to this server.

        Else a record that comes back meanwhile would be dropped, and no server would run it.
        """
        while True:
            takes = self._takes
            moved = await self._peers.find_moved(keys)
            if takes == self._takes and not self._taking.locked():
                return moved
            async with self._taking:  # until the take has ended
                pass

    def _drop(self, prediction: Prediction) -> None:
        if self._is_here(prediction):
            self._dispatchers[prediction.request.kind].drop_moved(prediction)

    def _is_here(self, prediction: Prediction) -> bool:
        """Return whether one waits or runs; else it has ended, or its beginning is recorded now."""
        dispatcher = self._dispatchers[prediction.request.kind]
        return prediction in dispatcher.waiting or (
            dispatcher.predictions.get(prediction.key) is prediction
            and prediction.status == "processing"
        )

    def _count_free(self) -> dict[Kind, int]:
        return {kind: _count_free(each) for kind, each in self._dispatchers.items()}


def _count_free(dispatcher: Dispatcher) -> int:
    """Count the slots that nothing waits for; a worker that was never asked starts when it is."""
    if not any(each.takes_work or each.state == "idle" for each in dispatcher.workers):
        return 0
    return -dispatcher.slots.excess(len(dispatcher.predictions), "")
