"""JSON as strictly as Cog's server reads it, alone and in the body of a request."""

import json
import signal
import tracemalloc

import pytest

from cog_adapt.server.api.body import read_body, read_input
from cog_adapt.server.api.responses import STATUSES
from cog_adapt.server.api.strict_json import MOST_LEVELS, find_duplicate, levels
from cog_adapt.server.errors import BodyError

JSON = "application/json"


def read(body, content_type=JSON, *, strict=False):
    return read_body(body, content_type, strict=strict)


def refusal(body, content_type=JSON, **options):
    with pytest.raises(BodyError) as caught:
        read_input(read(body, content_type, **options))
    return caught.value


def nested(levels):
    """A body of so many levels."""
    return b'{"input":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def test_levels_are_bounded_as_in_cog():
    assert read(nested(MOST_LEVELS))
    found = refusal(nested(MOST_LEVELS + 1))
    assert (STATUSES[type(found)], MOST_LEVELS) == (400, 127)
    assert "127 levels" in str(found)


def test_objects_count_as_levels_too():
    deep = b'{"a":' * MOST_LEVELS + b"1" + b"}" * MOST_LEVELS
    assert read(b'{"id":"a","x":[]}')
    assert read(deep)
    assert STATUSES[type(refusal(b'{"input":' + deep + b"}"))] == 400


def test_brackets_in_strings_are_no_levels():
    text = json.dumps({"input": {"text": '["\\' * 200}})
    assert read(text.encode())


def test_brackets_side_by_side_are_no_levels():
    assert read(b'{"input":[' + b"[],{}," * 200 + b"1]}")


def test_brackets_that_are_never_closed_are_counted():
    assert "levels" in refusal(b'{"input":' + b"[" * 100_000).args[0]


def test_a_long_string_among_many_brackets_takes_no_memory():
    body = b'{"input":{"input":"' + b"x" * 4_000_000 + b'","b":[' + b"[]," * 200 + b"1]}}"
    tracemalloc.start()
    read(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * len(body)


def test_a_string_that_never_ends_is_read_once():
    def give_up(*_):
        raise AssertionError("the time is not linear")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    try:
        assert STATUSES[type(refusal(b'{"a":[' + b"[]," * 200 + b'"' + b'\\"' * 1_000_000))] == 400
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "body",
    [
        b'{"input":{"input":1,"id":"id","id":2}}',
        b'{"context":{"id":"x"},"id":"a","other":{"id":1}}',
        b'{"other":{"id":1},"other":{"id":2},"id":"a"}',
        b'{"input":{"text":"{\\"id\\":1, \\"id\\":"},"id":"a","other":["id"]}',
        b'{"id":"id"}',
    ],
)
def test_a_key_twice_elsewhere_is_not(body):
    assert read(body)


def test_of_a_key_that_comes_twice_also_one_hides_behind_others_that_do():
    body = b'{"other":{"id":1},"id":"a","other":{"id":"}"},"id":"b"}'
    assert refusal(body).location == ("body", "id")


@pytest.mark.parametrize(
    ("body", "depth"),
    [
        (b"[" * 127 + b"]" * 127, 0),  # too few brackets to be looked at
        (b"[" * 128 + b"]" * 128, 128),
        (b"[" * 500 + b"]" * 500, 500),
        (b'{"a":' * 64 + b"[" * 66, 130),
        (b"[" + b"{}," * 200 + b"1]", 2),
        (b'["' + b"[" * 200 + b'"]', 1),
    ],
)
def test_brackets_are_counted_where_there_are_many(body, depth):
    assert levels(body) == depth


KEYS = (b'"id"', b'"input"')


@pytest.mark.parametrize(
    ("body", "duplicate"),
    [
        (b'{"id":1,"id":2}', "id"),
        (b'{"input":1,"id":1,"id":2,"input":2}', "id"),
        (b'{"id" : 1, "x": {"id": 2}, "id": 3}', "id"),
        (b'{"id":1,"input":{"id":1,"id":2}}', None),
        (b'{"x":1,"x":2,"id":1}', None),
        (b'{"id":"id","x":["id","id"]}', None),
        (b'{"x":[{"id":1}],"y":{"id":2}}', None),
        (b"{}", None),
    ],
)
def test_the_first_key_that_comes_twice_is_found(body, duplicate):
    assert find_duplicate(body, KEYS, b"{}") == duplicate


def test_keys_in_the_largest_value_are_not_looked_at():
    inner = b'{"id":1,"id":2}'
    assert find_duplicate(b'{"id":1,"input":%b}' % inner, KEYS, inner) is None
    assert find_duplicate(b'{"id":1,"input":%b,"id":2}' % inner, KEYS, inner) == "id"
