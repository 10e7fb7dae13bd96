"""From what is printed to whole lines."""

import pytest

from cog_adapt.server.worker.lines import Lines


@pytest.fixture
def sent():
    return []


@pytest.fixture
def lines(sent):
    return Lines(lambda source, text: sent.append((source, text)))


def test_the_two_streams_do_not_mix_and_keep_the_order_of_their_ends(lines, sent):
    lines.write("stdout", "out")
    lines.write("stderr", "err\n")
    lines.write("stdout", "\n")
    assert sent == [("stderr", "err\n"), ("stdout", "out\n")]


def test_a_flush_hands_on_the_beginning_of_a_line_of_that_stream_once(lines, sent):
    lines.write("stdout", "50%\r")
    lines.write("stderr", "waits")
    lines.flush("stdout")
    lines.flush("stdout")
    assert sent == [("stdout", "50%\r")]
    lines.write("stdout", "rest\n")
    assert sent[1:] == [("stdout", "rest\n")]


def test_the_end_hands_on_what_waits_in_both(lines, sent):
    lines.write("stderr", "err")
    lines.write("stdout", "out")
    lines.close()
    lines.close()
    assert sent == [("stdout", "out"), ("stderr", "err")]
