"""Settings with which `python -m server` ends before it serves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]


def run(folder, *flags, **variables):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **variables}
    return subprocess.run(
        [sys.executable, "-m", "server", *flags],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_wrong_setting_ends_with_1_and_names_it(tmp_path):
    ended = run(tmp_path, COG_PREDICT_TYPE_STUB="predict.py", MAX_QUEUE="-1")
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
def test_a_setting_that_cannot_be_used_ends_with_1_before_anything_is_loaded(tmp_path, name, value):
    ended = run(tmp_path, COG_PREDICT_TYPE_STUB="predict.py", PORT="0", **{name: value})
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("ERROR: ")
    assert name in ended.stderr
