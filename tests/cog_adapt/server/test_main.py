"""What `python -m server` does before it serves; the rest is in tests/cog_adapt/contract."""

import argparse
import asyncio
import gc
import json
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvicorn

from cog_adapt.server.app import create_app
from cog_adapt.server.errors import ConfigError
from cog_adapt.server.http_server import Server
from cog_adapt.server.main import worker_configs
from cog_adapt.server.middleware.connection_limits import BoundedProtocol
from cog_adapt.server.settings import Settings
from cog_adapt.server.worker.config import WorkerConfig
from tests.cog_adapt.waiting import until

REPOSITORY = Path(__file__).parents[3]


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


@pytest.fixture
def forced(monkeypatch):
    """The seconds after which this process would have been ended by force."""
    seconds: list[float] = []
    monkeypatch.setattr("cog_adapt.server.http_server.end_by_force_after", seconds.append)
    return seconds


@pytest.fixture
def launches():
    """The applications that were made, each with what it was launched with."""
    return []


@pytest.fixture
def server(tmp_path, forced, launches):
    """Makes servers that are not run."""

    def make(*, mode="predict", awaits_shutdown=False, parts=None, **values):
        settings = Settings(data_dir=tmp_path, **values)
        flags = argparse.Namespace(mode=mode, await_explicit_shutdown=awaits_shutdown)

        def build(settings):
            app = create_app(settings)
            app.state.parts = parts
            launches.append(app)
            return app

        return Server(settings, {"predict": WorkerConfig("x.py:X")}, flags, build)

    return make


def test_the_help_names_the_flags_and_the_commands(start, tmp_path):
    text = start(tmp_path, "main.serve(['--help'], build)").stdout
    assert text.startswith("usage: python -m server ")
    for flag in ("--host", "--x-mode", "--upload-url", "--await-explicit-shutdown", "--threads"):
        assert flag in text
    assert "Commands instead of flags" in text


def test_a_server_launches_its_application_with_what_it_was_given(server, launches):
    one = server(mode="train")
    launched = launches[0].state.launch
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
    ("awaits_shutdown", "number", "ends"),
    [
        (False, signal.SIGTERM, True),
        (False, signal.SIGINT, True),
        (True, signal.SIGTERM, False),
        (True, signal.SIGINT, True),
    ],
)
def test_a_signal_ends_the_server_unless_it_awaits_its_shutdown(
    server, awaits_shutdown, number, ends
):
    one = server(awaits_shutdown=awaits_shutdown)
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    with one.capture_signals():
        signal.raise_signal(number)
    assert (one.should_exit, one.ended_by) == (ends, number if ends else None)
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before


@pytest.mark.parametrize(("drain", "seconds"), [(None, []), (0.0, [4.8]), (3.0, [7.8])])
def test_however_it_is_ended_it_is_so_within_five_seconds_after_the_drain(
    server, forced, launches, drain, seconds
):
    one, _ = server(drain_seconds=drain), server(drain_seconds=drain)
    with one.capture_signals():
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
    assert forced == seconds
    launches[1].state.launch.shut_down()
    assert forced == seconds * 2


def test_the_end_drains_and_a_second_interrupt_gives_up(server, monkeypatch):
    calls: list[object] = []
    monkeypatch.setattr(uvicorn.Server, "shutdown", lambda *_: asyncio.sleep(0))
    service = SimpleNamespace(drain=calls.append, give_up=lambda: calls.append("give up"))
    one = server(drain_seconds=7, parts=SimpleNamespace(service=service))

    async def story():
        await one.shutdown()
        with one.capture_signals():
            signal.raise_signal(signal.SIGTERM)
            await asyncio.sleep(0)
            assert calls == [7]
            signal.raise_signal(signal.SIGINT)
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


SHOWING = """
import json, os, socket
def run(self, sockets):
    listener, = sockets
    options = listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
    variables = [os.environ["TAKEN_ALREADY"], os.environ["TAKEN_FROM_FILE"]]
    print(json.dumps([listener.family == socket.AF_INET6, options > 0, variables]))
    self.started = True
main.Server.run = run
main.serve(["--host", "{host}"])
"""


@pytest.mark.parametrize(("host", "is_sixth"), [("127.0.0.1", False), ("::1", True)])
def test_it_listens_on_either_family_with_the_variables_of_the_image(
    start, tmp_path, host, is_sixth
):
    (tmp_path / "cog.yaml").write_text(
        "environment:\n  - TAKEN_ALREADY=file\n  - TAKEN_FROM_FILE=file\n"
    )
    ended = start(tmp_path, SHOWING.replace("{host}", host), TAKEN_ALREADY="mine")
    assert json.loads(ended.stdout) == [is_sixth, True, ["mine", "file"]]


@pytest.mark.parametrize(
    ("ended_by", "started", "code"),
    [(None, True, 0), (signal.SIGTERM, True, 0), (None, False, 1), (signal.SIGINT, True, -2)],
)
def test_the_exit_code_is_cogs(start, tmp_path, ended_by, started, code):
    program = f"""
def run(self, sockets):
    self.ended_by, self.started = {ended_by and int(ended_by)}, {started}
main.Server.run = run
main.serve(["--host", "127.0.0.1"])
"""
    assert start(tmp_path, program).returncode == code
