"""The messages about adapters pass the link as they are."""

import pytest

from cog_adapt.server.adapter_messages import (
    AdapterChanged,
    AdaptersAnswered,
    AdaptersListed,
    AskAdapters,
)
from cog_adapt.server.protocol import Frames, to_frame


def test_a_question_passes_as_it_is():
    asked = AskAdapters(3, "change", "ada", "a1", changes=b'{"notes":"n"}')
    assert Frames.of_requests().feed(to_frame(asked)) == [asked]


@pytest.mark.parametrize(
    "report",
    [
        AdaptersAnswered(3, b"{}"),
        AdaptersAnswered(3, fault="input", error="no"),
        AdapterChanged("ada", "a1", b"{}"),
        AdapterChanged("ada", "a1"),
        AdaptersListed(b"[]", is_last=True, is_whole=False),
    ],
)
def test_a_report_passes_as_it_is(report):
    assert Frames.of_reports().feed(to_frame(report)) == [report]
