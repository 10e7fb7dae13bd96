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


def test_megabytes_pass():
    report = Output("a", b"x" * 5_000_000)
    stream, frames = to_frame(report), Frames.of_reports()
    heard = [m for at in range(0, len(stream), 65536) for m in frames.feed(stream[at : at + 65536])]
    assert heard == [report]


EVERY_REPORT: dict[Any, str] = {
    SetupLog("stderr", "line"): "SetupLog",
    Described(b"{}", 2, is_async=True): "Described",
    Ready(): "Ready",
    SetupFailed("boom"): "SetupFailed",
    Log("a", "stdout", "line\n"): "Log",
    Output("a", b"[1]"): "Output",
    Metric("a", "n", b"1", "append"): "Metric",
    Finished("a", "canceled"): "Finished",
    Health(): "Health",
    SelfTested(): "SelfTested",
    Finished("a", "succeeded", is_list=True): "Finished",
}
OTHERS = [Gauges({"a": 1.5}), *REQUESTS]


def test_every_report_has_its_tag_and_is_a_value_that_cannot_be_changed():
    for report, tag in EVERY_REPORT.items():
        assert msgspec.msgpack.decode(to_frame(report)[4:])["type"] == tag
        assert Frames.of_reports().feed(to_frame(report)) == [report]
    assert Frames.of_reports().feed(to_frame(Gauges({"a": 1.5}))) == [Gauges({"a": 1.5})]
    for message in [*EVERY_REPORT, *OTHERS]:
        for name in message.__struct_fields__:
            with pytest.raises(AttributeError):
                setattr(message, name, None)


def test_what_a_report_leaves_out_has_a_default():
    assert Ready() == Ready(None, has_healthcheck=False)
    assert Metric("a", "n", b"1").mode == "replace"
    assert Finished("a", "failed") == Finished("a", "failed", False, None, 0.0)
    assert (Health(), SelfTested()) == (Health(None), SelfTested(None, None))


def test_a_frame_is_four_bytes_of_length_and_the_message():
    frame = to_frame(Stop())
    assert frame[:4] == len(frame[4:]).to_bytes(4, "big")


def test_the_words_of_kinds_states_and_metrics_are_cogs():
    assert get_args(Kind) == ("predict", "train")
    assert NOUNS == {"predict": "prediction", "train": "training"}
    assert get_args(Status) == ("succeeded", "failed", "canceled")
    assert get_args(MetricMode) == ("replace", "increment", "append")
    neither: Any = "stdlog"
    for source in ("stdout", "stderr"):
        assert Frames.of_reports().feed(to_frame(SetupLog(source, "x")))
    with pytest.raises(msgspec.ValidationError):
        Frames.of_reports().feed(to_frame(SetupLog(neither, "x")))


def test_part_of_a_message_waits_for_the_rest():
    stream, frames = to_frame(Stop()) + to_frame(Stop()), Frames.of_requests()
    assert frames.feed(stream[:3]) == []
    assert frames.feed(stream[3 : len(stream) - 1]) == [Stop()]
    assert frames.feed(b"") == []
    assert frames.feed(stream[-1:]) == [Stop()]
