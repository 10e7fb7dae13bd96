"""The start of Cog's real server, and what is asked of it."""

import json
import subprocess
import sys

import httpx2
import pytest

from cog_adapt.server.command import cog_server as module
from cog_adapt.server.command.cog_server import CogServer, ServerStartError, cog_server
from gradient_check.tests.present import NOT_USED, present
from tests.cog_adapt.server.schema.test_openapi_enforced import PREDICT, write_project


def test_a_failed_setup_is_reported_with_its_log(tmp_path):
    (tmp_path / "predict.py").write_text("raise RuntimeError('no weights here')\n")
    with (
        pytest.raises(ServerStartError, match=r"SETUP_FAILED(?s:.)*no weights here"),
        cog_server(tmp_path, predict="predict.py:Predictor"),
    ):
        pass


def test_a_server_that_would_check_nothing_is_not_used(tmp_path):
    document = write_project(tmp_path, PREDICT)
    document["components"]["schemas"]["Input"]["properties"]["matched"]["pattern"] = r"a\Z"
    (tmp_path / ".cog" / "openapi_schema.json").write_text(json.dumps(document))
    with (
        pytest.raises(ServerStartError, match="no input at all"),
        cog_server(tmp_path, predict="predict.py:Predictor"),
    ):
        pass


def test_a_busy_server_is_asked_again_a_bounded_number_of_times(tmp_path, monkeypatch):
    monkeypatch.setattr("cog_adapt.server.command.cog_server.BUSY_PAUSE", 0.0)
    answers = iter([409, 409, 200, 409, 409, 409])
    transport = httpx2.MockTransport(lambda _: httpx2.Response(next(answers)))
    with httpx2.Client(transport=transport) as client:
        server = CogServer("http://coglet", tmp_path / "log", NOT_USED, client)
        assert server.post("/predictions", {}).status_code == 200
        assert server.post("/predictions", {}, busy_attempts=1).status_code == 409
        assert server.post("/predictions", {}, busy_attempts=2).status_code == 409
    assert list(answers) == []


def test_it_is_asked_to_end_before_it_is_killed():
    code = "import signal, sys\nsignal.signal(15, lambda *_: sys.exit(7))\nprint()\nsignal.pause()"
    command = [sys.executable, "-u", "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    present(process.stdout).readline()
    module.end_process(process)
    present(process.stdout).close()
    assert process.returncode == 7
