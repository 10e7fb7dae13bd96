"""Settings with which `python -m server` ends before it serves."""

import os
import subprocess
import sys

import pytest

from tests.cog_adapt.server.conftest import REPOSITORY


def test_a_wrong_setting_ends_with_1_and_names_it(tmp_path):
    variables = {"COG_PREDICT_TYPE_STUB": "predict.py", "MAX_QUEUE": "-1"}
    ended = subprocess.run(
        [sys.executable, "-m", "server"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert "MAX_QUEUE is '-1'" in ended.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://host/records"),
        ("DATABASE_URL", "sqlite:////no/such/folder/records.db"),
        ("EGRESS_ALLOW", "300.0.0.0/8"),
        ("WEBHOOK_SECRET", "whsec_!"),
        ("RATE_LIMIT", "often"),
        ("API_KEYS_FILE", "/no/such/file"),
        ("COG_LOG_LEVEL", "loud"),
        ("CORS_ORIGINS", "example.com/path"),
    ],
)
def test_a_setting_that_cannot_be_used_ends_with_1_before_anything_is_loaded(
    start, tmp_path, name, value
):
    ended = start(tmp_path, "main.serve([], build)", **{name: value})
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("ERROR: ")
    assert name in ended.stderr
