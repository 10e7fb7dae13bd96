"""The lines of the log: level, event and keys, as the sources write them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import cog_adapt

_LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
_LOGGERS = {"log", "_log", "logger", "_logger"}


def log_lines() -> Iterator[str]:
    """Yield `level "event" keys` of each event that the package logs.

    A text that is filled in (`%s`), or that has no keys, is for readers alone.
    """
    for path in Path(cog_adapt.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and _is_line(node.func) and node.keywords:
                yield _described(node)


def _is_line(function: ast.expr) -> bool:
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        return False
    return function.attr in _LEVELS and function.value.id in _LOGGERS


def _described(call: ast.Call) -> str:
    event = call.args[0]
    text = event.value if isinstance(event, ast.Constant) else ast.unparse(event)
    keys = sorted(key.arg or f"**{ast.unparse(key.value)}" for key in call.keywords)
    return " ".join([ast.unparse(call.func).rpartition(".")[2], repr(text), *keys])
