"""The events of a run in Replicate's words."""

import pytest

from cog_adapt.server.api.replicate_events import translate
from cog_adapt.server.service.events import RunEvent
from cog_adapt.server.service.prediction import encode


@pytest.mark.parametrize(
    ("name", "data", "first"),
    [
        ("output", {"chunk": {"b": [1]}, "index": 0}, ("output", b'{"b":[1]}')),
        ("error", {"error": "x", "skipped": 1}, ("error", b'{"error":"x","skipped":1}')),
        ("metric", {"name": "a", "value": 1}, None),
        ("queued", {"position": 1}, None),
    ],
)
def test_each_event_has_the_platforms_name(name, data, first):
    found = translate(RunEvent(7, name, encode(data)))
    assert found[:1] == ([] if first is None else [RunEvent(7, *first)])
