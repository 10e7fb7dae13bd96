import msgspec
import pytest

from cog_adapt.server.protocol import (
    AskGauges,
    AskHealth,
    AskSelfTest,
    Cancel,
    Described,
    Finished,
    Frames,
    Log,
    Metric,
    Output,
    Ready,
    Run,
    SetupFailed,
    Stop,
    to_frame,
)

WORK = [Run("a", b'{"x": 1}', {"k": "v"}), Stop()]
ASIDES = [Cancel("a", 1), AskHealth(), AskSelfTest(), AskGauges()]
REPORTS = [
    Described(b"{}", 2, is_async=True),
    Ready(b"{}", has_healthcheck=True),
    SetupFailed("boom"),
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


def test_each_socket_has_messages_of_its_own():
    kinds = {Frames.of_work: WORK, Frames.of_control: ASIDES, Frames.of_reports: REPORTS}
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
