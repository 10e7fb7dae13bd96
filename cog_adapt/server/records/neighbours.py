"""What a server of PostgreSQL says of itself to the others, and sees of them, at each beat."""

from dataclasses import dataclass

from sqlalchemy import Connection, exists, func, or_, select, update

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.records.server_tables import servers

_FOLDERS_LOCK = 0x636F69  # any number except those of the migrations and of `leases`


@dataclass(frozen=True)
class AdapterFolder:
    """A folder of adapters, as several servers see it.

    Attributes:
        identity: the text of a random file in it: two servers that read the same one share it.
        path: of the folder, as this server names it.
    """

    identity: str
    path: str


class Neighbours:
    """The other living servers of a database; SQLite's share a machine, and need no check.

    Attributes:
        serve_earlier: whether one of them is of an earlier release, as of the last beat.
    """

    def __init__(self) -> None:
        self.serve_earlier = True
        self._folder = AdapterFolder("", "")

    def note(self, connection: Connection, server: str) -> None:
        """Say which folder this server has, and look at the others."""
        if connection.dialect.name != "postgresql":
            return
        own = update(servers).where(servers.c.id == server)
        is_other = or_(servers.c.folder.is_(None), servers.c.folder != self._folder.identity)
        connection.execute(
            own.where(is_other).values(folder=self._folder.identity, folder_path=self._folder.path)
        )
        others = select(servers.c.id).where(
            servers.c.id != server,
            servers.c.folder.is_(None),
            servers.c.lease_until > func.clock_timestamp(),
        )
        self.serve_earlier = bool(connection.scalar(select(exists(others.subquery().select()))))

    def claim(self, connection: Connection, server: str, folder: AdapterFolder) -> None:
        """Say that this server keeps adapters in a folder, unless another one has another folder.

        Raises:
            ConfigError: a living server keeps its adapters elsewhere.
        """
        if connection.dialect.name != "postgresql":
            return
        connection.execute(select(func.pg_advisory_xact_lock(_FOLDERS_LOCK)))
        other = connection.execute(
            select(servers.c.host, servers.c.pid, servers.c.folder_path).where(
                servers.c.id != server,
                servers.c.folder != "",
                servers.c.folder != folder.identity,
                servers.c.lease_until > func.clock_timestamp(),
            )
        ).first()
        if other is not None:
            raise ConfigError(
                f"the server on {other.host.partition('/')[0]} (process {other.pid}) uses this "
                f"DATABASE_URL, and keeps its adapters in {other.folder_path}, which is not the "
                f"folder {folder.path} of this server. Set ADAPTER_STORE to one store for all "
                "servers and run `cog-adapt adapters move-to-store` on each, or let WEIGHTS_DIR "
                "name one folder that all of them share."
            )
        self._folder = folder
        self.note(connection, server)
