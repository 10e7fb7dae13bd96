"""The commands that run nothing: `openapi` and `key`."""

import hashlib
import json

import pytest
from typer.testing import CliRunner

from cog_adapt.command.app import app
from cog_adapt.server.middleware.keys import read_keys
from tests.cog_adapt.command.conftest import PREDICTOR, TRAINING, make_folder


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
    assert (known.name, known.scopes) == ("ci", {"predict", "train"})
    assert known.digest == hashlib.sha256(lines[1].encode()).hexdigest()
    assert invoke("key", "ci").stdout != done.stdout


@pytest.mark.parametrize("arguments", [["key"], ["key", "ci", "--scope", "all"], ["key", "a b"]])
def test_a_key_of_no_use_is_refused(arguments):
    done = invoke(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
