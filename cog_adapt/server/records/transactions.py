"""Runs functions in transactions, and returns a failure instead of raising it.

The writing thread thereby survives any failure.
"""

import logging
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from cog_adapt.server.errors import StorageError, TakenOverError
from cog_adapt.server.records.batch import Changes, Key
from cog_adapt.server.records.database import for_writing

_FAULTS_OF_DATA: Final = (DataError, IntegrityError, sqlite3.DataError, sqlite3.IntegrityError)
_TOO_LARGE: Final = "54"  # PostgreSQL's class of errors for values beyond a limit
_log = logging.getLogger(__name__)


class Write(Protocol):
    """A function that writes changes, and returns the keys of those that another server owns."""

    def __call__(self, connection: Connection, changes: Changes) -> set[Key]:
        """Write the changes in the connection's transaction."""


class Transactions:
    """Writes to the database.

    Attributes:
        error: why the last transaction failed; None when it did not.
    """

    def __init__(self, engine: Engine, write: Write) -> None:
        self.error: str | None = None
        self._engine = for_writing(engine)
        self._write = write

    def run(self, function: Callable[[Connection], Any]) -> tuple[Any, Exception | None]:
        """Return the function's result, or the error that rolled back its transaction."""
        try:
            with self._engine.begin() as connection:
                result = function(connection)
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            failure = to_storage_error(error)
            self.error = str(failure)
            return None, failure
        except Exception as error:  # noqa: BLE001 - the caller gets it; the thread must survive
            return None, error
        self.error = None
        return result, None

    def store(self, changes: Changes) -> tuple[dict[Key, StorageError], Exception | None]:
        """Write all changes, or none.

        Returns:
            the records that were refused for good, and the error if none were written.
        """
        refused, error = self.run(partial(self._write, changes=changes))
        if error is None:
            return {key: _taken_over(key) for key in refused}, None
        if isinstance(error, StorageError) and not _is_fault_of_data(error.__cause__):
            return {}, error
        return self._store_singly(changes)

    def _store_singly(self, changes: Changes) -> tuple[dict[Key, StorageError], Exception | None]:
        """Write the changes one by one, and drop those that the database will never accept."""
        refused: dict[Key, StorageError] = {}
        for key, single in changes.split():
            taken, error = self.run(partial(self._write, changes=single))
            if error is None:
                refused.update((other, _taken_over(other)) for other in taken)
            elif isinstance(error, StorageError) and not _is_fault_of_data(error.__cause__):
                return {}, error
            else:
                self.error = None  # the database itself is well
                _log.error("record %s is lost, because the database refuses it: %s", key, error)
                refused[key] = StorageError(f"{key[0]} {key[1]!r} cannot be stored: {error}")
        return refused, None


def _taken_over(key: Key) -> TakenOverError:
    return TakenOverError(f"{key[0]} {key[1]!r} belongs to another server; do not run it")


def _is_fault_of_data(cause: BaseException | None) -> bool:
    if isinstance(cause, _FAULTS_OF_DATA):
        return True
    state = getattr(getattr(cause, "orig", None), "sqlstate", None)
    return isinstance(state, str) and state.startswith(_TOO_LARGE)


def to_storage_error(error: Exception) -> StorageError:
    """Make the error for callers, with the cause and the remedy."""
    cause = str(error.orig if isinstance(error, DBAPIError) else error).strip()
    failure = StorageError(
        f"the records cannot be read or written: {cause or type(error).__name__}; "
        "make room or start the database, and try again"
    )
    failure.__cause__ = error
    return failure
