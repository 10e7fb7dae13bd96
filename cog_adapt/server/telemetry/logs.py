"""The server's own log: one line on stderr for each event, JSON or for people.

Standard loggers (uvicorn's, asyncio's, libraries') use the same renderer. Use it with
`structlog.get_logger()`: `log.info("prediction finished", prediction_id=..., status=...)`.
"""

import io
import json
import logging
import re
import sys
from contextlib import suppress
from functools import lru_cache
from typing import Any, TextIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.telemetry.entries import escape_json, escape_text, hide_secrets

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("json", "console")
_CHATTY = ("uvicorn.error", "alembic")  # their lines at info are for who debugs a start
_REDACTED = "[redacted]"
_SECRET_NAMES = re.compile(
    r"authorization|cookie|passw|secret|token|api.?key|credential|dsn$|database_url", re.IGNORECASE
)


class _Unfailing:
    """A stream whose reader may be gone or whose disk full: a log line must not end a request."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


class _Redacting:
    """A renderer that removes anything that looks like a secret."""

    def __init__(self, renderer: Processor) -> None:
        self._renderer = renderer

    def __call__(self, log: WrappedLogger, method: str, event: EventDict) -> str:
        return hide_secrets(str(self._renderer(log, method, event)))


def format_on(stream: TextIO, log_format: str) -> str:
    """Return one of `FORMATS`: `auto` is `console` on a terminal, else `json`."""
    if log_format != "auto":
        return log_format
    return "console" if stream.isatty() else "json"


def configure_logs(log_format: str, level: str, stream: TextIO | None = None) -> None:
    """Send this process's log to stderr, or to `stream`.

    Args:
        log_format: one of `FORMATS`.
        level: one of `LEVELS`; events below it cost almost no time.
        stream: in place of stderr.

    Raises:
        ConfigError: format or level is unknown.
    """
    if log_format not in FORMATS:
        raise ConfigError(f"LOG_FORMAT is {log_format!r}; choose from {', '.join(FORMATS)}")
    if level.lower() not in LEVELS:
        raise ConfigError(f"COG_LOG_LEVEL is {level!r}; choose from {', '.join(LEVELS)}")
    stream, number = stream or sys.stderr, logging.getLevelNamesMapping()[level.upper()]
    chain: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(
            "iso" if log_format == "json" else "%H:%M:%S", utc=log_format == "json"
        ),
        _redact_names,
    ]
    renderer = _choose_renderer(log_format, stream.isatty())
    unfailing = cast(TextIO, _Unfailing(stream))
    structlog.configure(
        processors=[*chain, *renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(unfailing),
        cache_logger_on_first_use=False,
    )
    unwrap: Any = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.add_logger_name, *chain],
        processors=[unwrap, *renderer],
    )
    _adopt_standard_loggers(unfailing, number, formatter)


def _choose_renderer(log_format: str, colors: bool) -> list[Processor]:
    # Plain tracebacks: the others show local variables, and so inputs and secrets.
    if log_format == "json":
        return [
            structlog.processors.format_exc_info,
            _Redacting(structlog.processors.JSONRenderer(_to_json)),
        ]
    console = structlog.dev.ConsoleRenderer(
        colors=colors, sort_keys=False, exception_formatter=_write_traceback
    )
    return [_escape_values, _Redacting(console)]


def _adopt_standard_loggers(stream: TextIO, level: int, formatter: logging.Formatter) -> None:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)
        logger.propagate = name != "uvicorn.access"  # /metrics counts what these lines would repeat
    for name in _CHATTY:
        logging.getLogger(name).setLevel(level if level <= logging.DEBUG else logging.WARNING)
    for name in ("httpx2", "httpcore2"):  # these libraries log URLs and headers, with their secrets
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)


def _redact_names(_log: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {name: _without_secrets(name, value) for name, value in event.items()}


def _without_secrets(name: str, value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _without_secrets(str(key), item) for key, item in value.items()}
    return _REDACTED if value is not None and _is_secret(name) else value


def _escape_values(_log: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {
        name: escape_text(value) if isinstance(value, str) else value
        for name, value in event.items()
    }


def _write_traceback(stream: TextIO, error: ExcInfo) -> None:
    plain = io.StringIO()
    structlog.dev.plain_traceback(plain, error)
    stream.write(escape_text(plain.getvalue()))


@lru_cache(1024)
def _is_secret(name: str) -> bool:
    return _SECRET_NAMES.search(name) is not None


def _to_json(event: EventDict, **_: object) -> str:
    try:
        return escape_json(msgspec.json.encode(event, enc_hook=repr).decode())
    except (ValueError, OverflowError):  # lone surrogates, or integers of more than 64 bits
        return json.dumps(event, default=repr)
