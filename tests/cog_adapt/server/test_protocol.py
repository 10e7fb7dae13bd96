from typing import Any, get_args

import msgspec
import pytest

from cog_adapt.server.protocol import (
    NOUNS,
    AskGauges,
    AskHealth,
    AskSelfTest,
    Beat,
    Cancel,
    Described,
    Finished,
    Frames,
    Gauges,
    Health,
    Kind,
    Log,
    Metric,
    MetricMode,
    Output,
    Ready,
    Run,
    SelfTested,
    SetupFailed,
    SetupLog,
    Status,
    Stop,
    to_frame,
)

QUESTIONS: list[Any] = [AskHealth(), AskSelfTest(), AskGauges()]
REQUESTS: list[Any] = [Run("a", b'{"x": 1}', {"k": "v"}), Cancel("a"), Stop(), *QUESTIONS]
REPORTS: list[Any] = [
    Described(b"{}", 2, is_async=True),
    Ready(b"{}", has_healthcheck=True),
    SetupFailed("boom"),
    Beat(1.5, 2.0),
    Log("a", "stdout", "line\n"),
    Output("a", b"[1]"),
    Metric("a", "n", b"1", "increment"),
    Finished("a", "failed", error="boom", predict_time=0.5),
    SetupLog("stderr", "line"),
    Health("ill"),
    SelfTested(b"{}"),
    Gauges({"a": 1.5}),
]


@pytest.mark.parametrize("size", [1, 3, 7, 10_000])
def test_messages_arrive_whole_and_in_order_however_the_bytes_are_cut(size):
    stream = b"".join(map(to_frame, REPORTS))
    frames = Frames.of_reports()
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert [message for piece in pieces for message in frames.feed(piece)] == REPORTS


def test_each_direction_has_messages_of_its_own():
    kinds = {Frames.of_requests: REQUESTS, Frames.of_reports: REPORTS}
    for read, messages in kinds.items():
        stream = b"".join(map(to_frame, messages))
        assert read().feed(stream) == messages
        for other in kinds.keys() - {read}:
            with pytest.raises(msgspec.ValidationError):
                other().feed(stream)


def test_what_is_no_message_is_refused():
    with pytest.raises(msgspec.DecodeError):
        Frames.of_reports().feed(b"\x00\x00\x00\x02no")


def test_a_frame_is_four_bytes_of_length_and_the_message():
    frame = to_frame(Stop())
    assert frame[:4] == len(frame[4:]).to_bytes(4, "big")


def test_the_words_of_kinds_states_and_metrics_are_cogs():
    assert get_args(Kind) == ("predict", "train")
    assert NOUNS == {"predict": "prediction", "train": "training"}
    assert get_args(Status) == ("succeeded", "failed", "canceled")
    assert get_args(MetricMode) == ("replace", "increment", "append")
    assert Metric("a", "n", b"1").mode == "replace"
    neither: Any = "stdlog"
    for source in ("stdout", "stderr"):
        assert Frames.of_reports().feed(to_frame(SetupLog(source, "x")))
    with pytest.raises(msgspec.ValidationError):
        Frames.of_reports().feed(to_frame(SetupLog(neither, "x")))
