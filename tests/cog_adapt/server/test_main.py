"""What `python -m server` does before it serves; the rest is in tests/cog_adapt/contract."""

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvicorn

from cog_adapt.server.app import create_app
from cog_adapt.server.errors import ConfigError
from cog_adapt.server.main import (
    Server,
    _listen,
    _read_flags,
    _take_variables_of_image,
    worker_configs,
)
from cog_adapt.server.middleware.connection_limits import BoundedProtocol
from cog_adapt.server.settings import Settings
from cog_adapt.server.worker.config import WorkerConfig
from tests.cog_adapt.waiting import until

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
    configs = worker_configs(settings(image=True, hang_seconds=7), "predict", "http://x/")
    assert (configs["predict"].reference, configs["predict"].other) == (
        "predict.py:Runner",
        "train.py",
    )
    assert (configs["train"].reference, configs["train"].other) == ("train.py", "predict.py:Runner")
    both = {(config.upload_url, config.hang_seconds) for config in configs.values()}
    assert both == {("http://x/", 7)}


@pytest.mark.parametrize(
    ("image", "strict", "given", "slots"),
    [
        (True, True, None, 1),
        (True, True, 3, 3),
        (True, False, None, None),
        (True, False, 3, 3),
        (False, True, None, None),
        (False, False, 2, 2),
    ],
)
def test_a_setting_says_how_many_run_at_once_and_else_the_decorator(
    settings, image, strict, given, slots
):
    chosen = settings(image=image, strict_cog=strict, cog_max_concurrency=given)
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


def test_a_port_in_use_ends_with_1_and_says_so(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run(tmp_path, "--host", "127.0.0.1", COG_PREDICT_TYPE_STUB="predict.py", PORT=port)
    assert ended.returncode == 1
    assert f"port {port} cannot be listened on" in ended.stderr


def test_the_version_is_coglets(tmp_path):
    ended = run(tmp_path, "--version")
    assert (ended.returncode, ended.stdout) == (0, "coglet (Python) 0.23.1\n")


@pytest.fixture
def forced(monkeypatch):
    """The seconds after which this process would have been ended by force."""
    seconds: list[float] = []
    monkeypatch.setattr("cog_adapt.server.main.end_by_force_after", seconds.append)
    return seconds


@pytest.fixture
def server(tmp_path, forced):
    """Makes servers that are not run."""

    def make(*flags, **values):
        settings = Settings(data_dir=tmp_path, **values)
        arguments = _read_flags(flags, "python -m server")
        return Server(settings, {"predict": WorkerConfig("x.py:X")}, arguments, create_app)

    return make


def test_the_flags_are_cogs():
    flags = _read_flags([], "python -m server")
    found = (flags.host, flags.mode, flags.upload_url, flags.version)
    assert found == ("0.0.0.0", "predict", None, False)
    assert not flags.await_explicit_shutdown
    flags = _read_flags(
        ["--x-mode", "train", "--threads", "3", "--upload-url", "http://x/", "--host", "h", "-v"]
        + ["--await-explicit-shutdown", "true"],
        "python -m server",
    )
    found = (flags.host, flags.mode, flags.upload_url, flags.version)
    assert found == ("h", "train", "http://x/", True)
    assert flags.await_explicit_shutdown


@pytest.mark.parametrize(("program", "has_commands"), [("python -m server", True), ("x", False)])
def test_the_help_names_the_commands_where_there_are_some(capsys, program, has_commands):
    with pytest.raises(SystemExit):
        _read_flags(["--help"], program)
    text = capsys.readouterr().out
    assert text.startswith(f"usage: {program} ")
    assert ("Commands instead of flags" in text) is has_commands


def test_a_server_launches_its_application_with_what_it_was_given(server):
    one = server("--x-mode", "train")
    launched = one._app.state.launch
    assert (launched.mode, set(launched.configs)) == ("train", {"predict"})
    launched.shut_down()
    assert one.should_exit


@pytest.mark.parametrize(("seconds", "limit"), [(None, None), (0.0, 1), (2.5, 4), (3.0, 4)])
def test_open_requests_have_a_second_more_than_the_drain(server, seconds, limit):
    config = server(drain_seconds=seconds).config
    assert config.timeout_graceful_shutdown == limit
    assert (config.timeout_keep_alive, config.loop) == (75, "uvloop")
    assert issubclass(config.http, BoundedProtocol)
    assert not any([config.access_log, config.server_header, config.proxy_headers])


@pytest.mark.parametrize(
    ("flags", "number", "ends"),
    [
        ((), signal.SIGTERM, True),
        ((), signal.SIGINT, True),
        (("--await-explicit-shutdown", "1"), signal.SIGTERM, False),
        (("--await-explicit-shutdown", "1"), signal.SIGINT, True),
    ],
)
def test_a_signal_ends_the_server_unless_it_awaits_its_shutdown(server, flags, number, ends):
    one = server(*flags)
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    with one.capture_signals():
        signal.raise_signal(number)
    assert (one.should_exit, one.ended_by) == (ends, number if ends else None)
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before


@pytest.mark.parametrize(("drain", "seconds"), [(None, []), (0.0, [4.8]), (3.0, [7.8])])
def test_however_it_is_ended_it_is_so_within_five_seconds_after_the_drain(
    server, forced, drain, seconds
):
    one, other = server(drain_seconds=drain), server(drain_seconds=drain)
    for _ in range(2):
        one._take(signal.SIGTERM, None)
    assert forced == seconds
    other._app.state.launch.shut_down()
    assert forced == seconds * 2


def test_the_end_drains_and_a_second_interrupt_gives_up(server, monkeypatch):
    calls: list[object] = []
    monkeypatch.setattr(uvicorn.Server, "shutdown", lambda *_: asyncio.sleep(0))
    one = server(drain_seconds=7)
    service = SimpleNamespace(drain=calls.append, give_up=lambda: calls.append("give up"))
    one._app.state.parts = SimpleNamespace(service=service)

    async def story():
        await one.shutdown()
        one._take(signal.SIGTERM, None)
        await asyncio.sleep(0)
        assert calls == [7]
        one._take(signal.SIGINT, None)
        await until(lambda: len(calls) == 2)

    asyncio.run(story())
    assert calls == [7, "give up"]


def test_what_stays_for_ever_is_frozen(server, monkeypatch):
    calls = []
    monkeypatch.setattr(uvicorn.Server, "startup", lambda *_: asyncio.sleep(0))
    monkeypatch.setattr(gc, "collect", lambda: calls.append("collect"))
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    asyncio.run(server().startup())
    assert calls == ["collect", "freeze"]


def test_an_address_of_either_family_is_listened_on():
    for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
        with _listen(host, 0) as listener:
            assert listener.family == family
            assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
            socket.create_connection(listener.getsockname()[:2], timeout=5).close()


def test_variables_of_the_image_do_not_replace_those_that_are_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAKEN_ALREADY", "mine")
    monkeypatch.delenv("TAKEN_FROM_FILE", raising=False)
    before = dict(os.environ)
    _take_variables_of_image()
    assert dict(os.environ) == before
    (tmp_path / "cog.yaml").write_text(
        "environment:\n  - TAKEN_ALREADY=file\n  - TAKEN_FROM_FILE=file\n"
    )
    _take_variables_of_image()
    taken = os.environ.pop("TAKEN_ALREADY"), os.environ.pop("TAKEN_FROM_FILE")
    os.environ.clear()
    os.environ.update(before)
    assert taken == ("mine", "file")


@pytest.mark.parametrize(
    ("ended_by", "started", "code"),
    [(None, True, 0), (signal.SIGTERM, True, 0), (None, False, 1), (signal.SIGINT, True, -2)],
)
def test_the_exit_code_is_cogs(tmp_path, ended_by, started, code):
    script = f"""
from cog_adapt.server import main
def run(self, sockets):
    self.ended_by, self.started = {ended_by and int(ended_by)}, {started}
main.Server.run = run
main.serve(["--host", "127.0.0.1"])
"""
    variables = {"COG_PREDICT_TYPE_STUB": "x.py:X", "PORT": "0", "PYTHONPATH": str(REPOSITORY)}
    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, **variables},
        timeout=60,
        check=False,
    )
    assert ended.returncode == code
