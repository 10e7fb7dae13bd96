"""What `python -m server` does before it serves; the rest is in tests/cog_adapt/contract."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.main import worker_configs
from cog_adapt.server.settings import Settings

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


@pytest.fixture
def settings(monkeypatch, tmp_path):
    """Makes settings as in an image, or as from cog.yaml."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COG_PREDICT_TYPE_STUB", raising=False)
    monkeypatch.delenv("COG_TRAIN_TYPE_STUB", raising=False)

    def make(*, image, **values):
        if image:
            monkeypatch.setenv("COG_PREDICT_TYPE_STUB", "predict.py:Runner")
        return Settings(
            cog_predict_type_stub="predict.py:Runner", cog_train_type_stub="train.py", **values
        )

    return make


def test_each_kind_has_a_plan_that_knows_the_other(settings):
    configs = worker_configs(settings(image=True), "predict", "http://x/")
    assert (configs["predict"].reference, configs["predict"].other) == (
        "predict.py:Runner",
        "train.py",
    )
    assert (configs["train"].reference, configs["train"].other) == ("train.py", "predict.py:Runner")
    assert {config.upload_url for config in configs.values()} == {"http://x/"}


@pytest.mark.parametrize(
    ("image", "given", "slots"), [(True, None, 1), (True, 3, 3), (False, None, None), (False, 2, 2)]
)
def test_an_image_says_how_many_run_at_once_and_else_the_decorator(settings, image, given, slots):
    chosen = settings(image=image, cog_max_concurrency=given)
    configs = worker_configs(chosen, "predict", None)
    assert configs["predict"].concurrency == slots
    assert configs["train"].concurrency == 1


def test_a_mode_without_code_is_refused(settings, monkeypatch):
    monkeypatch.setenv("COG_PREDICT_TYPE_STUB", "predict.py")
    with pytest.raises(ConfigError, match="COG_TRAIN_TYPE_STUB"):
        worker_configs(Settings(), "train", None)


def test_nothing_to_serve_ends_with_1_and_says_what_to_set(tmp_path):
    ended = run(tmp_path, COG_PREDICT_TYPE_STUB="")
    assert ended.returncode == 1
    assert "COG_PREDICT_TYPE_STUB" in ended.stderr


def test_a_wrong_setting_ends_with_1_and_names_it(tmp_path):
    ended = run(tmp_path, COG_PREDICT_TYPE_STUB="predict.py", MAX_QUEUE="-1")
    assert ended.returncode == 1
    assert "MAX_QUEUE is '-1'" in ended.stderr


def test_a_port_in_use_ends_with_1_and_says_so(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run(tmp_path, "--host", "127.0.0.1", COG_PREDICT_TYPE_STUB="predict.py", PORT=port)
    assert ended.returncode == 1
    assert f"port {port} cannot be listened on" in ended.stderr


def test_the_version_is_coglets(tmp_path):
    ended = run(tmp_path, "--version")
    assert (ended.returncode, ended.stdout) == (0, "coglet (Python) 0.23.1\n")


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
