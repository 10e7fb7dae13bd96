"""Records of two servers on one database against a dictionary, whatever is done in what order."""

import asyncio
import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cog_adapt.server.errors import TakenOverError
from cog_adapt.server.records import Delivery, Record
from cog_adapt.server.records.forgetting import ForgottenRecords
from gradient_check.tests.present import present
from tests.cog_adapt.server.records.home import Home

SERVERS = ("one", "two")
KINDS: Any = ("predict", "train")
OWNERS = ("", "ann")
KEYS = [(kind, name, owner) for kind in KINDS for name in "ab" for owner in OWNERS]
YEARS = timedelta(days=36500)
LARGE = 50  # bytes; longer texts are files
EXPIRE = "UPDATE servers SET host = 'elsewhere', lease_until = '2020-01-01' WHERE id = ?"

keys = st.sampled_from(KEYS)
servers = st.sampled_from(SERVERS)
places = st.integers(0, 20)
rarely = st.sampled_from([False, False, False, True])


def chosen(found, place):
    return found[place % len(found)]


@dataclass(frozen=True)
class Kept:
    """What is known of a record: `holder` is the server that owns it, by its id."""

    status: str
    holder: str
    created: int
    completed: int | None
    text: str

    @property
    def is_finished(self):
        return self.status == "succeeded"


@dataclass(frozen=True)
class Owed:
    """A webhook that is still to be sent, by the server that holds it."""

    key: Any  # of its record, which may run again meanwhile
    holder: str
    created: int


class RecordsOfTwoServers(RuleBasedStateMachine):
    """Each number is a minute; the first was ten days ago."""

    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner()
        self.temporary = tempfile.TemporaryDirectory()
        self.home = Home(None, Path(self.temporary.name) / "data")
        self.start, self.minutes = datetime.now(UTC) - timedelta(days=10), 0
        self.opened: dict[str, Any] = {}
        self.model: dict[Any, Kept] = {}
        self.webhooks: dict[str, Owed] = {}
        self.dead: set[str] = set()  # whose work is nobody's until it is taken over

    def run(self, work):
        return self.runner.run(asyncio.wait_for(work, 20))

    @initialize()
    def open_both(self):
        for name in SERVERS:
            self.open(name)

    def open(self, name):
        context = self.home.opened(blob_bytes=LARGE)
        self.opened[name] = (context, self.run(context.__aenter__()))

    def records(self, name):
        return self.opened[name][1]

    def moment(self, minutes):
        return self.start + timedelta(minutes=minutes)

    def save(self, name, key, kept, deliveries=()):
        """Save a record by a server; another server's that has not ended is refused."""
        before, records = self.model.get(key), self.records(name)
        kind, record_id, owner = key
        record = Record(
            id=record_id,
            kind=kind,
            owner=owner,
            status=kept.status,
            created_at=self.moment(kept.created),
            completed_at=None if kept.completed is None else self.moment(kept.completed),
            input=kept.text,
        )
        if before and not before.is_finished and before.holder != records.server:
            with pytest.raises(TakenOverError):
                self.run(records.save_durably(record, deliveries))
            return False
        self.run(records.save_durably(record, deliveries))
        self.model[key] = replace(kept, holder=records.server)
        return True

    def tick(self):
        self.minutes += 1
        return self.minutes

    @rule(name=servers, key=keys, is_large=st.booleans())
    def accept(self, name, key, is_large):
        created = self.tick()
        text = f"text {created} " + "x" * LARGE * is_large
        self.save(name, key, Kept("starting", "", created, None, text))

    def unfinished(self):
        return [key for key, kept in self.model.items() if not kept.is_finished]

    def server_of(self, holder, is_other):
        """The server that holds a record, or the other one, or either where it is dead."""
        is_held = [self.records(each).server == holder for each in SERVERS]
        return SERVERS[is_held[1] != is_other]

    @precondition(unfinished)
    @rule(place=places, is_other=rarely)
    def begin(self, place, is_other):
        key = chosen(self.unfinished(), place)
        name = self.server_of(self.model[key].holder, is_other)
        self.save(name, key, replace(self.model[key], status="processing"))

    @precondition(unfinished)
    @rule(place=places, is_other=rarely, is_told=st.booleans())
    def finish(self, place, is_other, is_told):
        """End a run; its webhook is owed in the same transaction."""
        key = chosen(self.unfinished(), place)
        kept = self.model[key]
        name = self.server_of(kept.holder, is_other)
        completed = self.tick()
        ended = replace(kept, status="succeeded", completed=completed)
        delivery = self.delivery(f"d{completed}", key, completed)
        if self.save(name, key, ended, [delivery] if is_told else []) and is_told:
            self.webhooks[delivery.id] = Owed(key, self.records(name).server, completed)

    def delivery(self, name, key, minutes, **changes):
        kind, record_id, owner = key
        return Delivery(
            id=name, record_id=record_id, kind=kind, owner=owner, event="completed",
            url="http://h/", body="y" * LARGE * 2, created_at=self.moment(minutes),
            **{"next_attempt_at": self.moment(minutes), **changes},
        )  # fmt: skip

    def owed(self):
        return [name for name, owed in self.webhooks.items() if owed.holder not in self.dead]

    @precondition(owed)
    @rule(place=places)
    def deliver(self, place):
        name = chosen(self.owed(), place)
        owed = self.webhooks.pop(name)
        done: Any = {"state": "delivered", "attempts": 1, "next_attempt_at": None}
        sent = self.delivery(name, owed.key, owed.created, **done)
        holder = self.records(self.server_of(owed.holder, is_other=False))
        self.run(holder.update_delivery(sent))

    @precondition(lambda self: self.model)
    @rule(name=servers, place=places, is_all=rarely)
    def forget(self, name, place, is_all):
        """Forget one record, or all of an owner; an attempt that ends later changes nothing."""
        key = chosen(list(self.model), place)
        kind, record_id, owner = key
        theirs = [
            each
            for each in self.model
            if (each[0], each[2]) == (kind, owner) and (is_all or each[1] == record_id)
        ]
        unfinished = sum(not self.model[each].is_finished for each in theirs)
        expected = ForgottenRecords(0, unfinished) if unfinished else ForgottenRecords(len(theirs))
        records = self.records(name)
        assert self.run(records.forget(kind, owner, None if is_all else record_id)) == expected
        for each in [] if unfinished else theirs:
            del self.model[each]
        for name, owed in list(self.webhooks.items()):
            if owed.key in theirs and not unfinished:
                del self.webhooks[name]
                late = self.delivery(name, owed.key, owed.created, attempts=1)
                self.run(records.update_delivery(late))

    @rule(name=servers, count=st.integers(0, 3))
    def prune_by_count(self, name, count):
        surplus = []
        for kind in KINDS:
            ended = [key for key in self.model if key[0] == kind and self.model[key].is_finished]
            newest = sorted(ended, key=lambda key: self.model[key].created, reverse=True)
            surplus += newest[count:]
        self.expect_removal(name, surplus, (YEARS, count))

    @rule(name=servers, share=st.floats(0, 1))
    def prune_by_age(self, name, share):
        border = int(self.minutes * share)
        age = datetime.now(UTC) - self.moment(border + 0.5)
        ended = [key for key, kept in self.model.items() if kept.is_finished]
        old = [key for key in ended if present(self.model[key].completed) <= border]
        self.expect_removal(name, old, (age, 1000))

    def expect_removal(self, name, candidates, limits):
        owed = {each.key for each in self.webhooks.values()}
        gone = [key for key in candidates if key not in owed]
        assert self.run(self.records(name).prune(*limits)) == len(gone)
        for key in gone:
            del self.model[key]

    @rule(name=servers)
    def restart(self, name):
        """End a server, whose work others may have at once, and start the next."""
        context, records = self.opened.pop(name)
        self.run(context.__aexit__(None, None, None))
        self.dead.add(records.server)
        self.open(name)

    @rule(name=servers)
    def crash(self, name):
        """Let a server die on another machine: its lease stays until it is over."""
        context, records = self.opened.pop(name)
        with patch("cog_adapt.server.records.leases.leave", lambda *_, **__: None):
            self.run(context.__aexit__(None, None, None))
        with self.home.connected() as connection:
            connection.exec_driver_sql(EXPIRE, (records.server,))
        self.dead.add(records.server)
        self.open(name)

    @rule(name=servers)
    def take_over(self, name):
        """All that a dead server has left is one server's, oldest first; nothing of a living."""
        records = self.records(name)
        left = [
            key
            for key, kept in self.model.items()
            if not kept.is_finished and kept.holder in self.dead
        ]
        taken = self.run(records.take_over())
        expected = sorted(left, key=lambda key: self.model[key].created)
        assert [each.key for each in taken] == expected
        for key in left:
            self.model[key] = replace(self.model[key], holder=records.server)
        for name, owed in self.webhooks.items():
            if owed.holder in self.dead:
                self.webhooks[name] = replace(owed, holder=records.server)

    @precondition(lambda self: self.opened)
    @invariant()
    def each_owner_has_what_was_kept_newest_first(self):
        for name in SERVERS:
            records = self.records(name)
            for kind in KINDS:
                for owner in OWNERS:
                    page = self.run(records.page(kind, owner=owner)).records
                    mine = [key for key in self.model if (key[0], key[2]) == (kind, owner)]
                    newest = sorted(mine, key=lambda key: self.model[key].created, reverse=True)
                    assert [(each.key, each.status) for each in page] == [
                        (key, self.model[key].status) for key in newest
                    ]

    @precondition(lambda self: self.opened)
    @invariant()
    def texts_are_whole_and_what_was_forgotten_has_none(self):
        records = self.records("one")
        for key in KEYS:
            found = self.run(records.get(key[1], key[0], key[2]))
            kept = self.model.get(key)
            assert (found and found.input) == (kept and kept.text)

    @precondition(lambda self: self.opened)
    @invariant()
    def each_webhook_that_is_owed_is_due_at_the_server_that_has_it(self):
        for name in SERVERS:
            records = self.records(name)
            due = self.run(records.due_deliveries(datetime.now(UTC), 100))
            assert {each.id for each in due} == {
                each for each, owed in self.webhooks.items() if owed.holder == records.server
            }

    def teardown(self):
        for context, _ in self.opened.values():
            self.run(context.__aexit__(None, None, None))
        self.runner.close()
        self.temporary.cleanup()


TestRecords = RecordsOfTwoServers.TestCase
TestRecords.settings = settings(
    max_examples=12,
    stateful_step_count=30,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
