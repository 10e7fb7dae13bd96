"""What a record and a delivery say about themselves."""

from datetime import UTC, datetime
from typing import get_args

import pytest

from cog_adapt.server.records.record import (
    FINISHED,
    UNFINISHED,
    Delivery,
    DeliveryState,
    Page,
    Record,
    RecordStatus,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)
RECORD = Record(id="r", kind="predict", status="starting", created_at=NOW)
DELIVERY = Delivery(
    id="d", record_id="r", kind="train", event="completed", url="u", body="{}", created_at=NOW
)


@pytest.mark.parametrize(
    ("status", "is_finished"),
    [
        ("starting", False),
        ("processing", False),
        ("succeeded", True),
        ("failed", True),
        ("canceled", True),
    ],
)
def test_a_record_is_finished_in_each_final_status(status, is_finished):
    record = Record(id="r", kind="predict", status=status, created_at=NOW)
    assert record.is_finished is is_finished
    assert status in get_args(RecordStatus)


def test_every_status_is_either_final_or_not():
    assert UNFINISHED == ("starting", "processing")
    assert FINISHED == ("succeeded", "failed", "canceled")
    assert get_args(RecordStatus) == UNFINISHED + FINISHED
    assert get_args(DeliveryState) == ("pending", "delivered", "failed")


def test_a_new_record_has_only_what_is_known_at_its_start():
    unset = (
        *("started_at", "completed_at", "input", "payload", "input_digest", "output", "error"),
        *("webhook", "webhook_events", "server", "deadline"),
    )
    assert [getattr(RECORD, name) for name in unset] == [None] * len(unset)
    assert (RECORD.logs, RECORD.metrics) == ("", "{}")
    assert RECORD.retries_left == 0


def test_a_new_delivery_is_owed_and_untried():
    unset = ("next_attempt_at", "last_status", "last_error", "delivered_at", "server")
    assert [getattr(DELIVERY, name) for name in unset] == [None] * len(unset)
    assert (DELIVERY.headers, DELIVERY.state, DELIVERY.attempts) == ("{}", "pending", 0)


def test_a_page_without_a_cursor_is_the_last_one():
    page = Page([RECORD])
    assert (page.records, page.next_cursor) == ([RECORD], None)


@pytest.mark.parametrize("item", [RECORD, DELIVERY, Page([])], ids=lambda item: type(item).__name__)
def test_what_is_kept_is_frozen(item):
    with pytest.raises(AttributeError):
        setattr(item, item.__struct_fields__[0], None)


@pytest.mark.parametrize("made", [Record, Delivery])
def test_fields_are_given_by_name(made):
    with pytest.raises(TypeError):
        made("r", "predict", "starting", NOW)
