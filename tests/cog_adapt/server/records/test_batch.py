"""What waits to be written: the last state of each thing, and nothing that was given up."""

from cog_adapt.server.records.batch import Changes
from tests.cog_adapt.server.records.home import make_delivery, make_record


def test_a_newer_state_is_not_undone_by_the_one_that_is_tried_again():
    failed, since = Changes(), Changes()
    failed.add(make_record(1, status="processing"), [make_delivery(1)])
    since.add(make_record(1, status="succeeded"), [make_delivery(1, state="delivered")])
    assert since.restore(failed, 10) == 0
    assert [record.status for record in since.records.values()] == ["succeeded"]
    assert [delivery.state for delivery in since.deliveries.values()] == ["delivered"]
