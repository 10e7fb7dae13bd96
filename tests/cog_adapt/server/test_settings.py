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


@pytest.mark.parametrize("value", ["0", "65", "two", "2.5", "9" * 20])
def test_a_wrong_number_of_model_processes_is_named_once(monkeypatch, value):
    monkeypatch.setenv("MODEL_PROCESSES", value)
    with pytest.raises(ConfigError) as caught:
        read_settings()
    message = str(caught.value)
    assert message.count("MODEL_PROCESSES is") == 1
    assert value in message
    assert "auto or a whole number from 1 to 64" in message


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


@pytest.mark.parametrize("name", ["SERVER_URL", "PUBLIC_URL"])
@pytest.mark.parametrize(
    "value",
    [
        "http://ann:secret@host",
        "http://ann@host/path",
        "http://host?key=secret",
        "http://host/path#part",
        "ftp://host",
        "http://h/" + "x" * 1992,
        "http://h/" + "x" * 100_000,
    ],
)
def test_a_url_of_a_server_is_short_and_has_no_account(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as refused:
        read_settings()
    said = str(refused.value)
    assert f"{name} is " in said
    assert "to 2,000 characters, with no user, password, query or fragment. Set it in" in said
    assert len(said) < 600
    assert "ann" not in said


def test_a_url_of_a_server_may_have_2000_characters(monkeypatch):
    longest = "http://h/" + "x" * 1991
    monkeypatch.setenv("SERVER_URL", longest)
    assert read_settings().server_url == longest
