"""Connections to PostgreSQL for the parts that write no records, in any process of a server."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_SCHEME: Final = re.compile(r"postgresql(?:\+\w+)?://")
_SECONDS: Final = 10


def is_postgresql(url: str | None) -> bool:
    """Return whether DATABASE_URL names a PostgreSQL."""
    return url is not None and _SCHEME.match(url) is not None


@contextmanager
def transaction(url: str) -> Iterator[Any]:
    """Give a cursor of psycopg in a transaction of its own.

    Raises:
        OSError: the database cannot be reached, or refuses a statement.
    """
    import psycopg  # only the servers of a PostgreSQL wait for it

    try:
        with (
            psycopg.connect(
                _SCHEME.sub("postgresql://", url, count=1),
                connect_timeout=_SECONDS,
                application_name="cog-adapt",
            ) as connection,
            connection.cursor() as cursor,
        ):
            yield cursor
    except psycopg.Error as error:
        cause = str(error).strip() or type(error).__name__
        raise OSError(f"the database of DATABASE_URL: {cause}") from error
