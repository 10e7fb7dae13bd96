"""The commands: their options, and how they exit."""

import hashlib
import json
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cog_adapt.command import app as app_module
from cog_adapt.command.app import app
from cog_adapt.server.command.session import Options
from cog_adapt.server.errors import InputError, StorageError, UnavailableError
from cog_adapt.server.middleware.keys import read_keys
from tests.cog_adapt.server.command.conftest import PREDICTOR, TRAINING, make_folder


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_openapi_prints_the_document_or_writes_it(tmp_path, monkeypatch):
    make_folder(tmp_path, PREDICTOR, TRAINING)
    monkeypatch.chdir(tmp_path)
    printed = invoke("openapi")
    assert printed.exit_code == 0
    assert "TrainingInput" in json.loads(printed.stdout)["components"]["schemas"]
    assert invoke("openapi", "--output", "deep/schema.json").stdout == ""
    assert (tmp_path / "deep" / "schema.json").read_text() == printed.stdout


def test_openapi_without_a_predictor_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COG_PREDICT_TYPE_STUB", raising=False)
    done = invoke("openapi")
    assert done.exit_code == 1


def test_a_key_is_printed_with_the_line_that_lets_it_in():
    done = invoke("key", "ci", "--scope", "predict", "--scope", "train")
    lines = done.stdout.splitlines()
    (known,) = read_keys(lines[3])
    assert (known.name, known.scopes) == ("ci", frozenset({"predict", "train"}))
    assert known.digest == hashlib.sha256(lines[1].encode()).hexdigest()
    assert invoke("key", "ci").stdout != done.stdout


@pytest.mark.parametrize("arguments", [["key"], ["key", "ci", "--scope", "all"], ["key", "a b"]])
def test_a_key_of_no_use_is_refused(arguments):
    done = invoke(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")


@pytest.fixture
def options(monkeypatch):
    """The options of each command that would have run."""
    seen = []

    def run_once(options):
        seen.append(options)
        return 7

    monkeypatch.setattr(app_module, "run_once", run_once)
    monkeypatch.delenv("API_KEY", raising=False)
    return seen


@pytest.mark.parametrize("kind", ["predict", "train"])
def test_each_option_arrives_and_the_exit_code_is_the_runs(options, kind):
    flags = ["-i", "a=1", "--input", "b=2", "-o", "out", "--url", "http://h", "--key", "k"]
    flags += ["--json", "-e", "A=1", "--env", "B=2", "--setup-timeout", "1.5"]
    assert invoke(kind, *flags).exit_code == 7
    assert options == [
        Options(kind, ["a=1", "b=2"], Path("out"), "http://h", "k", True, ["A=1", "B=2"], 1.5)
    ]


@pytest.mark.parametrize("kind", ["predict", "train"])
def test_all_options_may_be_left_out_and_the_key_comes_from_the_environment(
    options, kind, monkeypatch
):
    invoke(kind)
    monkeypatch.setenv("API_KEY", "secret")
    invoke(kind)
    assert options == [
        Options(kind, (), None, None, key, False, (), 300.0) for key in (None, "secret")
    ]


def test_a_negative_timeout_is_refused(options):
    assert invoke("predict", "--setup-timeout", "-1").exit_code == 2
    assert invoke("predict", "--setup-timeout", "0").exit_code == 7


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("wrong"), 2, "error: wrong\n"),
        (UnavailableError("gone"), 1, "error: gone\n"),
        (StorageError("full"), 1, "error: full\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(monkeypatch, error, code, message):
    def run_once(_options):
        raise error

    monkeypatch.setattr(app_module, "run_once", run_once)
    done = invoke("predict")
    assert (done.exit_code, done.stdout, done.stderr) == (code, "", message)


def test_signals_end_the_run_while_it_goes_on(monkeypatch):
    monkeypatch.setattr(app_module, "run_once", lambda _: signal.raise_signal(signal.SIGTERM))
    assert invoke("predict").exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_key_is_for_predictions_unless_said():
    (known,) = read_keys(invoke("key", "ci").stdout.splitlines()[3])
    assert known.scopes == {"predict"}


def test_a_key_is_made_for_an_owner():
    (known,) = read_keys(invoke("key", "ci", "--owner", "acme").stdout.splitlines()[3])
    assert (known.name, known.owner) == ("ci", "acme")


def test_the_key_and_its_line_are_named():
    lines = invoke("key", "ci").stdout.splitlines()
    assert lines[0] == "the key, for ci alone:"
    assert lines[2] == "the line for API_KEYS_FILE:"
    assert len(lines) == 4


def test_a_key_of_no_use_is_told_with_the_reason():
    assert invoke("key", "ci", "--scope", "all").stderr.startswith("error: ")
