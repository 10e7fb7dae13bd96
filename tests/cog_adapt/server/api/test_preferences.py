"""How a client wants its answer, by its headers."""

import pytest
from starlette.datastructures import Headers

from cog_adapt.server.api.preferences import Preferences, read_preferences
from cog_adapt.server.api.responses import STATUSES
from cog_adapt.server.errors import InvalidRequest


def preferences(*, strict=False, **headers):
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return read_preferences(Headers(raw=raw), strict=strict)


@pytest.mark.parametrize("strict", [True, False])
def test_without_headers_a_client_waits_for_the_end(strict):
    assert preferences(strict=strict) == Preferences(False, False, None, None)


@pytest.mark.parametrize("strict", [True, False])
def test_a_stream_wins_over_prefer(strict):
    found = preferences(strict=strict, accept="a/b, text/event-stream;q=1", prefer="respond-async")
    assert found == Preferences(is_stream=True)


@pytest.mark.parametrize("accept", ["*/*", "text/*", "TEXT/EVENT-STREAM", "application/json"])
def test_other_types_are_no_stream(accept):
    assert not preferences(accept=accept).is_stream


@pytest.mark.parametrize("strict", [True, False])
def test_respond_async(strict):
    assert preferences(strict=strict, prefer="respond-async") == Preferences(is_async=True)


@pytest.mark.parametrize("prefer", ["Respond-Async", "respond-async, wait=5", "wait=5", "x"])
def test_cog_knows_no_other_preference(prefer):
    assert preferences(strict=True, prefer=prefer) == Preferences()


@pytest.mark.parametrize(
    ("prefer", "expected"),
    [
        ("Respond-Async", Preferences(is_async=True)),
        ("foo, respond-async ", Preferences(is_async=True)),
        ("wait=5", Preferences(wait=5.0)),
        ("WAIT=0", Preferences(wait=0.0)),
        ("respond-async, wait=5", Preferences(wait=5.0)),
        ("wait=5, respond-async", Preferences(wait=5.0)),
        ("wait", Preferences()),
        ("wait=-1", Preferences()),
        ("wait=x, respond-async", Preferences(is_async=True)),
        ("respond-asynchronously", Preferences()),
    ],
)
def test_the_mirror_reads_preferences(prefer, expected):
    assert preferences(prefer=prefer) == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("30s", 30), ("5m", 300), ("1h", 3600), ("250ms", 0.25), ("0.5", 0.5)],
)
def test_cancel_after_is_a_time(text, seconds):
    assert preferences(cancel_after=text).cancel_after == seconds
    assert preferences(cancel_after=text, prefer="wait=1") == Preferences(
        wait=1.0, cancel_after=seconds
    )
    assert preferences(cancel_after=text, prefer="respond-async").cancel_after == seconds
    assert preferences(cancel_after=text, accept="text/event-stream").cancel_after == seconds


@pytest.mark.parametrize(
    "text", ["", "0", "0s", "0.0", "-1", "1d", "1e9", "inf", "soon", "1 s", "9999999", "٣"]
)
def test_what_is_no_time_is_refused_with_the_remedy(text):
    with pytest.raises(InvalidRequest, match="30s, 5m or 1h") as caught:
        preferences(cancel_after=text)
    assert (STATUSES[type(caught.value)], caught.value.location) == (
        422,
        ("header", "cancel-after"),
    )


def test_of_several_headers_of_one_name_the_first_counts():
    raw = [(b"prefer", b"respond-async"), (b"prefer", b"wait=5"), (b"accept", b"\xe9")]
    assert read_preferences(Headers(raw=raw), strict=False) == Preferences(is_async=True)


@pytest.mark.parametrize(("text", "seconds"), [("1.5m", 90.0), ("0.001h", 3.6), ("1ms", 0.001)])
def test_parts_of_a_unit_are_times_too(text, seconds):
    assert preferences(cancel_after=text).cancel_after == pytest.approx(seconds)
