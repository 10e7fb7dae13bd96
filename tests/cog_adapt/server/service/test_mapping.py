"""What the database keeps of a prediction, and what can be made of it again."""

import asyncio
import uuid
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from cog_adapt.server.protocol import OWNER_KEY, Finished
from cog_adapt.server.service.mapping import (
    completed_delivery,
    orphan_delivery,
    to_record,
    to_request,
)
from cog_adapt.server.service.prediction import Prediction, PredictionSpec, digest_of, now
from gradient_check.tests.present import present

CREATED = datetime(2026, 1, 2, 3, 4, 5, 600000, tzinfo=UTC)
REQUEST = PredictionSpec(
    "p",
    "train",
    b'{"key":"s"}',
    b'{"key":"***"}',
    {"user": "u"},
    "http://receiver.test/",
    frozenset({"start", "completed"}),
    durable=True,
    retries=2,
    timeout=90.0,
    headers={"traceparent": "t"},
    created_at=CREATED,
    digest=digest_of(b'{"key":"s"}'),
)


def predicted(request=REQUEST, outputs=(), end=None, **changes):
    async def make():
        prediction = Prediction(msgspec.structs.replace(request, **changes), history=10)
        for output in outputs:
            prediction.add_output(output)
        if end is not None:
            prediction.finish(end)
        return prediction

    return asyncio.run(make())


def test_a_record_has_all_that_is_known():
    prediction = predicted(outputs=[b"1"])
    prediction.add_log("stdout", "a line\n")
    prediction.start()
    record = to_record(prediction)
    assert (record.id, record.kind, record.status) == ("p", "train", "processing")
    assert (record.created_at, record.started_at) == (CREATED, prediction.started_at)
    assert (record.completed_at, record.error) == (None, None)
    assert (record.input, record.input_digest) == ('{"key":"***"}', REQUEST.digest)
    assert (record.output, record.logs, record.metrics) == ("[1]", "a line\n", "{}")
    assert (record.webhook, record.webhook_events) == (REQUEST.webhook, ("completed", "start"))
    assert (record.retries_left, record.deadline) == (2, CREATED + timedelta(seconds=90))


def test_a_record_of_what_has_ended_cannot_be_run():
    end = Finished("p", "failed", error="boom", predict_time=2.5)
    record = to_record(predicted(end=end))
    assert (record.status, record.error, record.payload) == ("failed", "boom", None)
    assert record.metrics == '{"predict_time":2.5}'
    assert present(record.completed_at) >= CREATED


@pytest.mark.parametrize(
    ("outputs", "status", "is_list", "output"),
    [
        ([], "succeeded", False, "null"),
        ([], "succeeded", True, "[]"),
        ([b'"a"'], "succeeded", False, '"a"'),
        ([b"1", b"2"], "failed", True, "[1,2]"),
        ([], "failed", False, None),
        ([], "canceled", True, None),
    ],
)
def test_an_output_is_kept_where_there_is_one(outputs, status, is_list, output):
    end = Finished("p", status, is_list=is_list)
    assert to_record(predicted(outputs=outputs, end=end)).output == output


def test_what_was_asked_for_comes_back_from_its_record():
    nobody_waits = msgspec.structs.replace(REQUEST, is_async=True)
    assert to_request(to_record(predicted())) == nobody_waits
    assert to_request(to_record(predicted(digest=""))) == nobody_waits  # of an old record


@pytest.mark.parametrize("changes", [{"durable": False}, {"repeatable": False}])
def test_secrets_and_what_a_client_waits_for_are_not_kept_to_be_run_again(changes):
    record = to_record(predicted(**changes))
    assert record.payload is None
    assert to_request(record) is None


def test_the_webhook_of_an_end_holds_the_whole_account():
    prediction = predicted(outputs=[b"1"], end=Finished("p", "failed", error="boom"))
    before = now()
    delivery = completed_delivery(prediction, {"traceparent": "t"})
    assert (delivery.record_id, delivery.kind, delivery.event) == ("p", "train", "completed")
    assert (delivery.url, delivery.headers) == (REQUEST.webhook, '{"traceparent":"t"}')
    assert delivery.body.encode() == prediction.completed()
    assert before <= delivery.created_at <= present(delivery.next_attempt_at) <= now()


@pytest.mark.parametrize("output", [None, '["a"]'])
def test_the_webhook_of_an_orphan_holds_what_its_record_does(output):
    record = msgspec.structs.replace(
        to_record(predicted()), status="failed", error="gone", output=output, logs="a\n"
    )
    delivery = orphan_delivery(record)
    body = {"id": "p", "status": "failed", "error": "gone", "logs": "a\n", "metrics": {}}
    assert msgspec.json.decode(delivery.body) == body | ({"output": ["a"]} if output else {})
    assert (delivery.record_id, delivery.kind, delivery.event) == ("p", "train", "completed")
    assert (delivery.url, delivery.headers) == (REQUEST.webhook, "{}")
    assert delivery.created_at <= present(delivery.next_attempt_at) <= now()
    assert now() - delivery.created_at < timedelta(seconds=60)


def test_every_server_names_the_end_of_one_run_alike():
    end = Finished("p", "failed")
    one = completed_delivery(predicted(end=end), {}).id
    assert one == orphan_delivery(to_record(predicted())).id
    assert one == str(uuid.uuid5(uuid.NAMESPACE_OID, f"train p {CREATED.timestamp():.6f}"))
    later = CREATED + timedelta(microseconds=1)
    assert one != completed_delivery(predicted(created_at=later, end=end), {}).id


def test_a_webhook_is_the_owners_and_has_an_id_of_its_own():
    made = [predicted(context={OWNER_KEY: name} if name else {}) for name in ("", "ann", "bob")]
    owed = [completed_delivery(each, {}) for each in made]
    assert [each.owner for each in owed] == ["", "ann", "bob"]
    assert len({each.id for each in owed}) == 3
    assert [orphan_delivery(to_record(each)).id for each in made] == [each.id for each in owed]
