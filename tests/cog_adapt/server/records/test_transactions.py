"""Transactions whose failures are answers."""

import sqlite3

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, insert, select
from sqlalchemy.exc import DataError, IntegrityError, OperationalError
from sqlalchemy.pool import StaticPool

from cog_adapt.server.errors import StorageError, TakenOverError
from cog_adapt.server.records.batch import Changes
from cog_adapt.server.records.transactions import Transactions, to_storage_error
from gradient_check.tests.present import present
from tests.cog_adapt.server.records.home import make_delivery, make_record

METADATA = MetaData()
NUMBERS = Table("numbers", METADATA, Column("number", Integer, primary_key=True))


class OriginError(Exception):
    """What a database's driver raises."""

    def __init__(self, text="", sqlstate=None):
        super().__init__(text)
        self.sqlstate = sqlstate


@pytest.fixture
def engine():
    engine = create_engine("sqlite://", poolclass=StaticPool)
    METADATA.create_all(engine)
    yield engine
    engine.dispose()


def write_nothing(connection, changes):
    return set()


def numbers_in(engine):
    with engine.connect() as connection:
        return list(connection.scalars(select(NUMBERS.c.number)))


def changes_of(*numbers, deliveries=()):
    changes = Changes()
    for number in numbers:
        changes.add(make_record(number), ())
    changes.add(None, [make_delivery(number) for number in deliveries])
    return changes


def failing_for(*bad, error):
    """Writes the number of each record; fails where one of the bad ones is among them."""

    def write(connection, changes):
        for _, name, _ in changes.records:
            connection.execute(insert(NUMBERS).values(number=int(name[1:])))
        if {name for _, name, _ in changes.records} & set(bad):
            raise error
        return set()

    return write


@pytest.mark.parametrize(
    "fault",
    [
        OSError("disk full"),
        OperationalError("x", {}, OriginError()),
        sqlite3.OperationalError("disk full"),
    ],
)
def test_what_the_database_cannot_do_is_an_answer_and_undone(engine, fault):
    transactions = Transactions(engine, write_nothing)

    def fail(connection):
        connection.execute(insert(NUMBERS).values(number=7))
        raise fault

    result, error = transactions.run(fail)
    assert result is None
    assert isinstance(error, StorageError)
    assert error.__cause__ is fault
    assert transactions.error == str(error)
    assert numbers_in(engine) == []
    assert transactions.run(lambda connection: 1) == (1, None)
    assert transactions.error is None


def test_another_error_goes_to_the_caller_and_the_database_is_well(engine):
    transactions = Transactions(engine, write_nothing)
    fault = ValueError("odd")

    def fail(connection):
        connection.execute(insert(NUMBERS).values(number=7))
        raise fault

    assert transactions.run(fail) == (None, fault)
    assert transactions.error is None
    assert numbers_in(engine) == []


def test_what_another_server_has_is_refused_by_name(engine):
    transactions = Transactions(engine, lambda connection, changes: {("predict", "r2", "")})
    refused, error = transactions.store(changes_of(1, 2))
    assert error is None
    ((key, reason),) = refused.items()
    assert key == ("predict", "r2", "")
    assert isinstance(reason, TakenOverError)
    assert "'r2' belongs to another server" in str(reason)


def test_a_database_that_is_down_writes_nothing_and_loses_nothing(engine):
    down = OperationalError("x", {}, OriginError("down", "57P03"))
    transactions = Transactions(engine, failing_for("r1", error=down))
    refused, error = transactions.store(changes_of(1, 2))
    assert refused == {}
    assert isinstance(error, StorageError)
    assert numbers_in(engine) == []
    assert "down" in present(transactions.error)


@pytest.mark.parametrize(
    "fault",
    [
        DataError("x", {}, OriginError("bad")),
        IntegrityError("x", {}, OriginError("bad")),
        OperationalError("x", {}, OriginError("bad", "54000")),
        sqlite3.DataError("bad"),
        sqlite3.IntegrityError("bad"),
        ValueError("bad"),
    ],
    ids=["data", "integrity", "too large", "data of SQLite", "integrity of SQLite", "ours"],
)
def test_only_what_will_never_fit_is_given_up(engine, caplog, fault):
    transactions = Transactions(engine, failing_for("r2", error=fault))
    refused, error = transactions.store(changes_of(1, 2, 3, deliveries=[4]))
    assert error is None
    ((key, reason),) = refused.items()
    assert key == ("predict", "r2", "")
    assert type(reason) is StorageError
    assert "predict 'r2' cannot be stored" in str(reason)
    assert "bad" in str(reason)
    assert numbers_in(engine) == [1, 3]
    assert transactions.error is None
    (lost,) = [text for text in caplog.messages if " is lost" in text]
    assert "('predict', 'r2', '')" in lost


def test_while_written_singly_others_may_be_taken_over(engine):
    def write(connection, changes):
        if len(changes) > 1:
            raise ValueError("odd")
        return set(changes.records)

    refused, error = Transactions(engine, write).store(changes_of(1, 2))
    assert error is None
    assert [type(reason) for reason in refused.values()] == [TakenOverError] * 2


def test_a_database_that_ends_while_written_singly_keeps_all(engine):
    def write(connection, changes):
        if len(changes) > 1:
            raise ValueError("odd")
        raise OSError("gone")

    transactions = Transactions(engine, write)
    refused, error = transactions.store(changes_of(1, 2))
    assert refused == {}
    assert "gone" in str(error)
    assert "gone" in present(transactions.error)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OperationalError("SELECT 1", {}, OriginError("disk full\n")), "disk full"),
        (OSError(), "OSError"),
    ],
)
def test_a_failure_names_cause_and_remedy(error, cause):
    failure = to_storage_error(error)
    assert str(failure) == (
        f"the records cannot be read or written: {cause}; "
        "make room or start the database, and try again"
    )
    assert failure.__cause__ is error


def test_a_write_takes_its_turn_at_the_start(sqlite_home):
    from cog_adapt.server.records.database import open_database

    sqlite_home.folder.mkdir()
    engine = open_database(None, sqlite_home.folder)
    transactions = Transactions(engine, write_nothing)
    begun = []
    transactions.run(
        lambda connection: begun.append(connection.get_execution_options().get("writes"))
    )
    engine.dispose()
    assert begun == [True]
