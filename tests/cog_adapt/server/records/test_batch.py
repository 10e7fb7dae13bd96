"""What waits to be written: the last state of each thing, and nothing that was given up."""

from cog_adapt.server.records.batch import Batch, Changes
from tests.cog_adapt.server.records.home import make_delivery, make_record


def changes_of(*records, deliveries=()):
    changes = Changes()
    for record in records:
        changes.add(record, ())
    changes.add(None, deliveries)
    return changes


def test_a_later_state_replaces_an_earlier_one():
    early, late = make_record(1, status="processing"), make_record(1, status="failed")
    owed, done = make_delivery(1), make_delivery(1, state="delivered")
    changes = changes_of(early, late, deliveries=[owed, done])
    assert changes.records == {("predict", "r1", ""): late}
    assert changes.deliveries == {"d1": done}


def test_an_id_belongs_to_its_kind():
    changes = changes_of(make_record(1), make_record(1, kind="train"), deliveries=[make_delivery()])
    assert list(changes.records) == [("predict", "r1", ""), ("train", "r1", "")]
    assert len(changes) == 3
    assert len(Changes()) == 0


def test_what_is_superseded_is_forgotten_and_nothing_else():
    changes = changes_of(
        make_record(1), make_record(2), deliveries=[make_delivery(1), make_delivery(2)]
    )
    changes.forget(make_record(1, status="failed"), [make_delivery(1), make_delivery(9)])
    assert (list(changes.records), list(changes.deliveries)) == ([("predict", "r2", "")], ["d2"])
    changes.forget(None, ())
    changes.forget(make_record(7), ())
    assert len(changes) == 2


def test_beyond_the_limit_the_oldest_are_given_up():
    failed = changes_of(make_record(1), make_record(2), deliveries=[make_delivery(1)])
    since = changes_of(make_record(3), deliveries=[make_delivery(2), make_delivery(3)])
    assert since.restore(failed, 2) == 2
    assert [key[1] for key in since.records] == ["r2", "r3"]
    assert list(since.deliveries) == ["d2", "d3"]


def test_within_the_limit_nothing_is_given_up():
    since = changes_of(make_record(3))
    assert since.restore(changes_of(make_record(1), make_record(2)), 3) == 0
    assert [key[1] for key in since.records] == ["r1", "r2", "r3"]


def test_a_newer_state_is_not_undone_by_the_one_that_is_tried_again():
    failed, since = Changes(), Changes()
    failed.add(make_record(1, status="processing"), [make_delivery(1)])
    since.add(make_record(1, status="succeeded"), [make_delivery(1, state="delivered")])
    assert since.restore(failed, 10) == 0
    assert [record.status for record in since.records.values()] == ["succeeded"]
    assert [delivery.state for delivery in since.deliveries.values()] == ["delivered"]


def test_each_change_stands_alone_under_the_key_of_its_record():
    record, delivery = make_record(1), make_delivery(2, kind="train")
    first, second = changes_of(record, deliveries=[delivery]).split()
    assert first[0] == ("predict", "r1", "")
    assert (list(first[1].records.values()), first[1].deliveries) == ([record], {})
    assert second[0] == ("train", "r2", "")
    assert (second[1].records, list(second[1].deliveries.values())) == ({}, [delivery])


def make_batch():
    batch = Batch()
    batch.behind.add(make_record(1, status="processing"), [make_delivery(1)])
    batch.behind.add(make_record(2), [make_delivery(2)])
    batch.durable.add(make_record(1, status="failed"), [make_delivery(1, state="failed")])
    return batch


def test_the_newest_state_is_found_wherever_it_waits():
    batch = make_batch()
    assert batch.find(("predict", "r1", "")).status == "failed"
    assert batch.find(("predict", "r2", "")) == make_record(2)
    assert batch.find(("train", "r2", "")) is None


def test_all_changes_are_merged_to_the_newest():
    merged = make_batch().merge()
    assert [record.status for record in merged.records.values()] == ["failed", "succeeded"]
    assert [delivery.state for delivery in merged.deliveries.values()] == ["failed", "pending"]


def test_an_empty_batch_has_nobody_waiting():
    batch = Batch()
    assert (batch.waiters, batch.calls, len(batch.merge())) == ([], [], 0)
