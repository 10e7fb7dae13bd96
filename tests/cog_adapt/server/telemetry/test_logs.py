import asyncio
import io
import json
import logging
import subprocess
import sys
import warnings

import pytest
import structlog

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.telemetry.logs import configure_logs


@pytest.fixture(autouse=True)
def _restored():
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


@pytest.fixture
def stream():
    return io.StringIO()


def read(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_a_json_line_with_level_time_and_prediction(stream):
    configure_logs("json", "info", stream)
    structlog.get_logger().info("finished", prediction_id="p1", seconds=0.5)
    (line,) = read(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "finished", "level": "info", "prediction_id": "p1", "seconds": 0.5}


def test_by_default_lines_go_to_stderr():
    code = (
        "import structlog; from cog_adapt.server.telemetry.logs import configure_logs\n"
        "configure_logs('json', 'info'); structlog.get_logger().info('here')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30, check=True)
    assert done.stdout == b""
    assert json.loads(done.stderr)["event"] == "here"


def test_console_lines_are_for_people(stream):
    configure_logs("console", "info", stream)
    structlog.get_logger().info("finished", prediction_id="p1")
    assert "finished" in stream.getvalue()
    assert "prediction_id=p1" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize("name", ["uvicorn", "uvicorn.error", "asyncio", "some.library"])
def test_standard_loggers_come_out_of_the_same_renderer(stream, log_format, name):
    if name != "some.library":  # as uvicorn leaves its own behind
        logging.getLogger(name).handlers[:] = [logging.StreamHandler(stream)]
        logging.getLogger(name).propagate = False
    configure_logs(log_format, "info", stream)
    logging.getLogger(name).warning("slow %s", "callback")
    if log_format == "json":
        (line,) = read(stream)
        assert (line["event"], line["logger"], line["level"]) == ("slow callback", name, "warning")
    else:
        assert stream.getvalue().count("slow callback") == 1


def test_uvicorns_access_log_is_off(stream):
    configure_logs("json", "debug", stream)
    logging.getLogger("uvicorn.access").info("GET /")
    assert stream.getvalue() == ""


def test_warnings_are_log_lines(stream):
    configure_logs("json", "info", stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert "old" in read(stream)[0]["event"]


@pytest.mark.parametrize(
    ("level", "shown"),
    [("debug", 4), ("info", 3), ("WARNING", 2), ("error", 1)],
)
def test_events_below_the_level_are_dropped(stream, level, shown):
    configure_logs("json", level, stream)
    for log in (structlog.get_logger(), logging.getLogger("library")):
        stream.seek(0)
        stream.truncate()
        for name in ("debug", "info", "warning", "error"):
            getattr(log, name)("said")
        assert len(read(stream)) == shown


@pytest.mark.parametrize(("log_format", "level"), [("xml", "info"), ("json", "loud"), ("json", "")])
def test_an_unknown_format_or_level_is_named(log_format, level):
    with pytest.raises(ConfigError, match="LOG_FORMAT is 'xml'|COG_LOG_LEVEL is"):
        configure_logs(log_format, level)


def test_a_prediction_bound_in_its_task_is_on_every_line_of_the_task(stream):
    configure_logs("json", "info", stream)

    async def run(id):
        structlog.contextvars.bind_contextvars(prediction_id=id)
        await asyncio.sleep(0)
        structlog.get_logger().info("ours")
        logging.getLogger("library").info("theirs")

    async def run_two():
        await asyncio.gather(run("a"), run("b"))

    asyncio.run(run_two())
    assert [line["prediction_id"] for line in read(stream)] == ["a", "a", "b", "b"]


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_secrets_are_never_logged(stream, log_format):
    configure_logs(log_format, "info", stream)
    log, library = structlog.get_logger(), logging.getLogger("library")
    log.info("settings", webhook_auth_token="hush-1", database_url="hush-2", api_key="hush-3")
    log.info("request", headers={"Authorization": "hush-4", "Cookie": "hush-5"})
    log.info("fetched", url="https://me:hush-6@host/file")
    log.info("sent with Bearer hush-7 and whsec_hush-8")
    library.info("postgresql://me:hush-9@host/db %s", "Authorization: Basic hush-10")
    try:
        password = "hush-11"  # noqa: F841 - what a traceback with local variables would show
        raise RuntimeError("Bearer hush-12")
    except RuntimeError:
        log.exception("failed")
        library.exception("failed")
    shown = stream.getvalue().replace('password = "hush-11"', "")
    assert "hush" not in shown
    assert "RuntimeError" in shown
    assert "@host/file" in shown


def test_what_json_cannot_say_is_logged_all_the_same(stream):
    configure_logs("json", "info", stream)
    structlog.get_logger().info("odd", text="\ud800", number=2**70, thing=object, data=b"x")
    (line,) = read(stream)
    assert line["number"] == 2**70
    assert line["text"] == "\ud800"


def test_a_stream_that_cannot_be_written_ends_no_request(stream):
    configure_logs("json", "info", stream)
    stream.close()
    structlog.get_logger().info("lost")
    logging.getLogger("library").info("lost")


def test_a_terminal_gets_colours_and_loggers_follow_the_level_of_all(stream):
    stream.isatty = lambda: True
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    configure_logs("console", "info", stream)
    logging.getLogger("uvicorn").info("started")
    assert "started" in stream.getvalue()
    assert "\x1b[" in stream.getvalue()


def test_each_part_of_an_event_keeps_its_place(stream):
    configure_logs("console", "info", stream)
    structlog.get_logger().info("said", zebra=1, apple={"token": None, "x": [1]})
    shown = stream.getvalue()
    assert shown.index("zebra=1") < shown.index("apple=")
    assert "'token': None" in shown


def test_a_traceback_is_in_the_line_of_its_event(stream):
    configure_logs("json", "info", stream)
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        structlog.get_logger().exception("failed")
    (line,) = read(stream)
    assert line["level"] == "error"
    assert "RuntimeError: boom" in line["exception"]


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_nothing_in_a_line_moves_a_terminal(stream, log_format):
    configure_logs(log_format, "info", stream)
    try:
        raise ValueError("\x1b[2J\x9b2J")
    except ValueError:
        structlog.get_logger().exception("\x1b[2J\x9b2J", name="\x1b[2J\x9b2J")
    logging.getLogger("some.library").warning("%s", "\x1b[2J\x9b2J")
    assert "2J" in stream.getvalue()
    assert not {"\x1b", "\x9b"} & set(stream.getvalue())
