"""From what is printed to whole lines."""

import pytest

from cog_adapt.server.worker.lines import Lines, encodable


@pytest.fixture
def sent():
    return []


@pytest.fixture
def lines(sent):
    return Lines(lambda source, text: sent.append((source, text)))


def test_what_follows_the_last_newline_waits_for_the_next_one(lines, sent):
    lines.write("stdout", "a")
    lines.write("stdout", "b")
    assert sent == []
    lines.write("stdout", "c\nd")
    lines.write("stdout", "\n")
    assert sent == [("stdout", "abc\n"), ("stdout", "d\n")]


def test_the_two_streams_do_not_mix_and_keep_the_order_of_their_ends(lines, sent):
    lines.write("stdout", "out")
    lines.write("stderr", "err\n")
    lines.write("stdout", "\n")
    assert sent == [("stderr", "err\n"), ("stdout", "out\n")]


def test_the_end_hands_on_what_waits_in_both(lines, sent):
    lines.write("stderr", "err")
    lines.write("stdout", "out")
    lines.close()
    lines.close()
    assert sent == [("stdout", "out"), ("stderr", "err")]


@pytest.mark.parametrize(
    ("text", "encoded"), [("", ""), ("a\n", "a\n"), ("é😀", "é😀"), ("a\udc80", "a\\udc80")]
)
def test_only_surrogates_are_changed(text, encoded):
    assert encodable(text) == encoded


def test_whole_lines_go_on_at_once_and_together(lines, sent):
    lines.write("stdout", "a\nb\nc")
    assert sent == [("stdout", "a\nb\n")]
