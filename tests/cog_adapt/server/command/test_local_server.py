"""A server that the command starts for itself."""

import contextlib
import hashlib
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cog_adapt.server.command import local_server as module
from cog_adapt.server.command.local_server import local_server
from cog_adapt.server.errors import UnavailableError
from cog_adapt.server.middleware.keys import read_keys
from gradient_check.tests.present import present
from tests.cog_adapt.server.command.conftest import ROOT, make_folder, wait_until_gone
from tests.cog_adapt.waiting import wait_until


def test_streamed_text_is_printed_once_and_the_server_is_gone_afterwards(start, streamer):
    # another server's database and keys are not this one's
    variables = {"DATABASE_URL": "postgresql://nowhere/x", "API_KEYS_FILE": "/missing"}
    done = start(streamer, "predict", "-i", "words=4", "--env", "COLOUR=blue", **variables).end()
    assert (done.code, done.out) == (0, "word0 word1 word2 word3 \n"), done.err
    assert done.err == "begin blue sqlite\nsecond\n"
    wait_until_gone(streamer)


def test_a_failed_setup_is_shown_with_its_logs(start, tmp_path):
    make_folder(
        tmp_path,
        "class Predictor:\n"
        "    def setup(self) -> None:\n"
        "        print('loading')\n"
        "        raise ValueError('no weights')\n"
        "    def predict(self) -> str:\n"
        "        return ''\n",
    )
    done = start(tmp_path, "predict").end()
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[:2] == ["error: the server's health is SETUP_FAILED.", "loading"]
    assert "ValueError: no weights" in done.err


def test_a_mistake_in_cog_yaml_is_shown_with_its_key(start, tmp_path):
    make_folder(tmp_path, "")
    (tmp_path / "cog.yaml").write_text("run: predict.py:Predictor\nconcurrency: {max: none}\n")
    done = start(tmp_path, "predict").end()
    assert done.code == 1
    assert "cog.yaml: concurrency.max" in done.err


def test_a_server_has_a_folder_a_port_and_a_key_of_its_own(monkeypatch, tmp_path):
    for name in ("DATA_DIR", "DATABASE_URL", "API_KEYS_FILE", "PORT", "RATE_LIMIT", "STRICT_COG"):
        monkeypatch.setenv(name, "another's")
    monkeypatch.setenv("LOG_FORMAT", "json")
    monkeypatch.setenv("OTHER", "stays")
    environment = module.server_environment(tmp_path, 1234)
    assert environment["DATA_DIR"] == f"{tmp_path}/data"
    assert environment["DATABASE_URL"] == f"sqlite:///{tmp_path}/records.sqlite"
    assert environment["API_KEYS_FILE"] == f"{tmp_path}/keys"
    assert environment["OTHER"] == "stays"
    settings = ("PORT", "RATE_LIMIT", "STRICT_COG", "LOG_FORMAT")
    assert [environment[name] for name in settings] == ["1234", "100000/second", "0", "console"]


@pytest.mark.parametrize(("before", "added"), [(None, ""), ("/other", ":/other")])
def test_the_project_is_found_before_what_was_found_already(monkeypatch, tmp_path, before, added):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if before:
        monkeypatch.setenv("PYTHONPATH", before)
    assert module.server_environment(tmp_path, 1)["PYTHONPATH"] == f"{ROOT}{added}"


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    """A program in the server's place."""

    def put(code):
        start = subprocess.Popen
        calls = []

        def begin(command, **options):
            calls.append((command, options, Path(options["env"]["API_KEYS_FILE"]).read_text()))
            options["start_new_session"] = True
            return start([sys.executable, "-u", "-c", code], **options)

        monkeypatch.setattr(subprocess, "Popen", begin)
        return calls

    return put


def test_it_is_started_in_a_session_of_its_own_on_the_loopback_interface(stand_in):
    calls = stand_in("import time; time.sleep(60)")
    with local_server("train", {"COLOUR": "blue", "PORT": "1"}) as client:
        key, url = client.key, client.url
    ((command, options, line),) = calls
    assert command[1:5] == ["-P", "-m", "cog_adapt", "serve"]  # no folder's own modules
    assert command[5:] == ["--host", "127.0.0.1", "--x-mode", "train"]
    assert options["start_new_session"] is True
    assert options["stdin"] == subprocess.DEVNULL
    assert options["stderr"] == subprocess.STDOUT
    assert options["env"]["COLOUR"] == "blue"
    assert options["env"]["PORT"] == "1"  # a variable that is given wins
    (known,) = read_keys(line)
    assert known.scopes == {"predict", "train"}
    assert known.digest == hashlib.sha256(present(key).encode()).hexdigest()
    assert re.fullmatch(r"http://127.0.0.1:\d+", url)
    assert not Path(options["env"]["API_KEYS_FILE"]).parent.exists()


def test_the_port_is_free(monkeypatch):
    with socket.create_server(("127.0.0.1", module.free_port())):
        pass


def test_one_that_has_ended_is_told_with_the_end_of_its_log(stand_in):
    stand_in("for n in range(40): print('line', n)\nraise SystemExit(3)")
    with pytest.raises(UnavailableError) as caught, local_server("predict", {}) as client:
        client.wait_until_ready(60)
    lines = str(caught.value).splitlines()
    assert lines[0] == "the server ended with exit code 3. Its log:"
    assert lines[1:] == [f"line {n}" for n in range(10, 40)]


def test_another_error_is_not_taken_for_its_end(stand_in):
    stand_in("import time; time.sleep(60)")
    with pytest.raises(UnavailableError, match="^mine$"), local_server("predict", {}):
        raise UnavailableError("mine")


IGNORES = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up'); time.sleep(60)"


def test_one_that_does_not_stop_is_killed_with_what_it_started(stand_in, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "STOP_SECONDS", 0.3)
    child = tmp_path / "child"
    code = f"import subprocess; p = subprocess.Popen(['sleep', '60'])\nopen({str(child)!r}, 'w')"
    stand_in(f"{code}.write(str(p.pid))\n{IGNORES}")
    with local_server("predict", {}):
        wait_until(lambda: child.exists() and child.read_text())
    wait_until(lambda: has_ended(child.read_text()))


def has_ended(process):
    """Whether a process is gone, or waits for a parent that asks for its end."""
    with contextlib.suppress(FileNotFoundError):
        stat = Path(f"/proc/{process}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "Z"
    return True


def test_one_is_asked_to_stop_and_waited_for(stand_in, tmp_path):
    mark, up = tmp_path / "mark", tmp_path / "up"
    stand_in(
        "import signal, sys, time\n"
        f"def stop(*_): time.sleep(0.3); open({str(mark)!r}, 'w').close(); sys.exit()\n"
        f"signal.signal(15, stop); open({str(up)!r}, 'w').close(); time.sleep(60)"
    )
    with local_server("predict", {}):
        wait_until(up.exists)
    assert mark.exists()
