from pathlib import Path
from typing import Any

import pytest

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.settings import Settings, read_settings


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working directory without cog.yaml, and an environment without settings."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_nobody_sets_has_its_default():
    assert read_settings() == Settings()
    assert (read_settings().port, read_settings().max_queue) == (5000, 1000)


def test_the_environment_sets_what_it_names(monkeypatch):
    monkeypatch.setenv("PORT", "80")
    monkeypatch.setenv("STRICT_COG", "1")
    monkeypatch.setenv("EGRESS_ALLOW", " 127.0.0.0/8, files.internal ,")
    settings = read_settings()
    assert (settings.port, settings.strict_cog) == (80, True)
    assert settings.egress_allow == ("127.0.0.0/8", "files.internal")


def test_an_empty_variable_sets_nothing(monkeypatch):
    monkeypatch.setenv("COG_SETUP_TIMEOUT", "")
    monkeypatch.setenv("DATABASE_URL", "")
    assert read_settings() == Settings()


def test_cog_yaml_names_what_the_environment_does_not(folder, monkeypatch):
    (folder / "cog.yaml").write_text(
        'build: {python_version: "3.11"}\nrun: predict.py:Mine\ntrain: train.py:train\n'
        "concurrency: {max: 4}\n"
    )
    monkeypatch.setenv("COG_TRAIN_TYPE_STUB", "other.py:train")
    settings = read_settings()
    assert settings.cog_predict_type_stub == "predict.py:Mine"
    assert settings.cog_train_type_stub == "other.py:train"
    assert settings.cog_max_concurrency == 4


def test_every_mistake_is_named_with_its_value_and_what_is_allowed(monkeypatch):
    monkeypatch.setenv("PORT", "99999")
    monkeypatch.setenv("MAX_QUEUE", "many")
    with pytest.raises(ConfigError) as caught:
        read_settings()
    assert "PORT is '99999'; allowed: whole number from 0 to 65535. Set it in" in str(caught.value)
    assert "MAX_QUEUE is 'many'; allowed: whole number from 0. Set it in the" in str(caught.value)


def test_a_mistake_in_cog_yaml_is_named_with_its_key(folder):
    (folder / "cog.yaml").write_text("concurrency:\n  max: 0\n")
    with pytest.raises(ConfigError, match=r"cog\.yaml: concurrency\.max is 0: .* equal to 1"):
        read_settings()


def test_a_setting_cannot_be_changed_afterwards():
    with pytest.raises(ValueError, match="frozen"):
        read_settings().port = 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("DRAIN_SECONDS", "inf"), ("BODY_SECONDS", "nan"), ("RETENTION_DAYS", "1e9")],
)
def test_seconds_and_days_are_numbers_that_clocks_can_take(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"{name} is '{value}'"):
        read_settings()


DEFAULTS = {
    "memory_share": 1,
    "disk_bytes": None,
    "port": 5000,
    "cog_predict_type_stub": None,
    "cog_train_type_stub": None,
    "cog_max_concurrency": None,
    "cog_setup_timeout": 0,
    "cog_throttle_response_interval": 0.5,
    "cog_stream_history_capacity": 1024,
    "cog_user_agent": None,
    "webhook_auth_token": None,
    "log_format": "json",
    "cog_log_level": "info",
    "kubernetes_service_host": None,
    "strict_cog": False,
    "max_queue": 1000,
    "data_dir": Path(".data"),
    "database_url": None,
    "retention_days": 30,
    "retention_count": 100_000,
    "record_bytes": None,
    "temp_file_days": 7,
    "drain_seconds": None,
    "max_crashes": 5,
    "hang_seconds": 60,
    "cancel_grace_seconds": 10,
    "egress_allow": (),
    "webhook_secret": None,
    "max_connections": None,
    "max_body_bytes": 104_857_600,
    "body_bytes": None,
    "queue_bytes": None,
    "answer_bytes": None,
    "event_bytes": None,
    "webhook_bytes": None,
    "owner_share": 0.5,
    "max_file_bytes": 1_073_741_824,
    "max_string_length": 67_108_864,
    "download_seconds": 600,
    "body_seconds": 30,
    "api_keys_file": None,
    "rate_limit": None,
    "cors_origins": (),
}


def test_the_defaults_are_those_that_operators_rely_on():
    assert read_settings().model_dump() == DEFAULTS
    assert all(field.description for field in Settings.model_fields.values())


@pytest.mark.parametrize(
    ("name", "least", "below"),
    [
        ("PORT", "0", "-1"),
        ("COG_MAX_CONCURRENCY", "1", "0"),
        ("COG_SETUP_TIMEOUT", "0", "-0.1"),
        ("COG_THROTTLE_RESPONSE_INTERVAL", "0", "-0.1"),
        ("COG_STREAM_HISTORY_CAPACITY", "0", "-1"),
        ("MAX_QUEUE", "0", "-1"),
        ("RETENTION_DAYS", "0.001", "0"),
        ("RETENTION_COUNT", "1", "0"),
        ("DRAIN_SECONDS", "0", "-0.1"),
        ("MAX_CRASHES", "1", "0"),
        ("MAX_BODY_BYTES", "1", "0"),
        ("MAX_FILE_BYTES", "1", "0"),
        ("MAX_STRING_LENGTH", "1", "0"),
        ("BODY_SECONDS", "0.001", "0"),
    ],
)
def test_each_number_has_a_least_value(monkeypatch, name, least, below):
    monkeypatch.setenv(name, least)
    assert getattr(read_settings(), name.lower()) == float(least)
    monkeypatch.setenv(name, below)
    with pytest.raises(ConfigError, match=f"{name} is '{below}'"):
        read_settings()


@pytest.mark.parametrize(
    ("name", "most", "above"), [("PORT", "65535", "65536"), ("RETENTION_DAYS", "100000", "100001")]
)
def test_some_numbers_have_a_greatest_value(monkeypatch, name, most, above):
    monkeypatch.setenv(name, most)
    assert getattr(read_settings(), name.lower()) == float(most)
    monkeypatch.setenv(name, above)
    with pytest.raises(ConfigError, match=f"{name} is '{above}'"):
        read_settings()


def test_a_log_is_json_or_for_people(monkeypatch):
    monkeypatch.setenv("log_format", "console")
    assert read_settings().log_format == "console"
    monkeypatch.setenv("LOG_FORMAT", "xml")
    with pytest.raises(ConfigError, match=r"settings are not allowed; correct:\nLOG_FORMAT"):
        read_settings()


def test_a_list_given_in_code_stays_as_it_is():
    origins: Any = ["https://a", "https://b"]
    assert Settings(cors_origins=origins).cors_origins == (
        "https://a",
        "https://b",
    )
    unknown: dict[str, Any] = {"unknown": 1}
    assert Settings(**unknown) == Settings()


def test_an_empty_key_of_cog_yaml_sets_nothing(folder):
    (folder / "cog.yaml").write_text("predict: a.py:A\n")
    settings = read_settings()
    assert (settings.cog_predict_type_stub, settings.cog_train_type_stub) == ("a.py:A", None)
    assert settings.cog_max_concurrency is None
