"""The number of connections of a server, and the choice of those that make room for a new one."""

import resource
from collections import Counter
from typing import Protocol

_MOST = 8192
_FEWEST = 16
_SHARE_OF_FILES = 0.75  # the other files are for the database, the workers and webhooks
_SHARE_OF_PEER = 0.75  # share of all connections


class Closable(Protocol):
    """A connection."""

    def make_room(self, *, is_new: bool) -> None:
        """Close it: another connection takes its place, or there is no place for it."""


class ConnectionRoom:
    """The connections of a server; those without a request under way make room, oldest first.

    One peer may use three quarters of the room, so that others, a health check say, find some.

    Args:
        most: connections at once; None: 8192, or fewer if this process may open few files.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most or most_by_files()
        self._most_of_peer = max(1, int(self.most * _SHARE_OF_PEER))
        self._peers: dict[Closable, str] = {}
        self._counts: Counter[str] = Counter()
        self._idle: dict[Closable, None] = {}  # in the order in which they became idle
        self._idle_of: dict[str, dict[Closable, None]] = {}

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._peers)

    def enter(self, connection: Closable, peer: str) -> None:
        """Add a new connection; beyond the limit, close one connection.

        The server closes the connection that has been idle for longest, or the new connection if
        all others are busy.

        Args:
            connection: a connection whose first request is still to come.
            peer: the IP address of the connection's other end.
        """
        self._peers[connection] = peer
        self._counts[peer] += 1
        self.rest(connection)
        if self._counts[peer] > self._most_of_peer:
            self._close(next(iter(self._idle_of[peer])), connection)
        elif len(self._peers) > self.most:
            self._close(next(iter(self._idle)), connection)

    def work(self, connection: Closable) -> None:
        """Mark a connection as serving a request."""
        peer = self._peers.get(connection, "")
        self._idle.pop(connection, None)
        idle = self._idle_of.get(peer, {})
        idle.pop(connection, None)
        if not idle:
            self._idle_of.pop(peer, None)

    def rest(self, connection: Closable) -> None:
        """Mark a connection as idle."""
        peer = self._peers.get(connection)
        if peer is not None:
            self._idle[connection] = None
            self._idle_of.setdefault(peer, {})[connection] = None

    def leave(self, connection: Closable) -> None:
        """Remove a closed connection, if it is still there."""
        self.work(connection)
        peer = self._peers.pop(connection, None)
        if peer is not None:
            self._counts[peer] -= 1
            if not self._counts[peer]:
                del self._counts[peer]

    def _close(self, idle: Closable, newest: Closable) -> None:
        self.leave(idle)
        idle.make_room(is_new=idle is newest)


def most_by_files() -> int:
    """Return the number of connections that this process's limit of open files allows."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MOST
    return max(_FEWEST, min(_MOST, int(files * _SHARE_OF_FILES)))
