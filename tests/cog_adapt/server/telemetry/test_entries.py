"""Entries of the JSON log for what is printed."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from cog_adapt.server.telemetry.entries import escape_text, hide_secrets, to_entry


def test_an_entry_is_a_line_of_json_with_its_time():
    line = to_entry('é "x"\t', source="stdout")
    entry = json.loads(line)
    assert "\n" not in line
    moment = datetime.fromisoformat(entry.pop("timestamp"))
    assert abs(datetime.now(UTC) - moment) < timedelta(seconds=60)
    assert entry == {"event": 'é "x"\t', "source": "stdout", "level": "info"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:pw@host/x", "postgresql://[redacted]@host/x"),
        ("Authorization: Bearer abc", "Authorization: Bearer [redacted]"),
        ("whsec_c2VjcmV0 is it", "[redacted] is it"),
        ("nothing", "nothing"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text, shown):
    assert hide_secrets(text) == shown
    assert json.loads(to_entry(text))["event"] == shown


def test_the_worker_gets_none_of_the_modules_that_a_user_may_have_too():
    code = "import sys, cog_adapt.server.worker.server_log; print('structlog' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False\n"


CONTROLS = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))


def test_no_control_character_is_in_an_entry_and_its_text_is_kept():
    line = to_entry(CONTROLS, source="stdout")
    assert not set(CONTROLS) & set(line)
    assert json.loads(line)["event"] == CONTROLS


def test_no_text_moves_a_terminal():
    assert escape_text("a\tb\r\nc") == "a\tb\r\nc"
    assert escape_text("\x1b[2J\x9b2J\x7f") == "\\x1b[2J\\x9b2J\\x7f"
    assert set(escape_text(CONTROLS)) & set(CONTROLS) == {"\t", "\r", "\n"}
