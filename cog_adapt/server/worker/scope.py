"""Provides `cog.current_scope()` in this process: metrics and the request's context.

The rules and the texts are coglet's, except that None deletes a metric, as Cog documents.
"""

import json
import math
from typing import Any

import coglet
import msgspec

from cog_adapt.server.protocol import Metric, MetricMode
from cog_adapt.server.worker.active import ActivePrediction, find_active

_MOST_CHARACTERS = 128
_MOST_SEGMENTS = 4
_MODES: dict[str, MetricMode] = {"replace": "replace", "incr": "increment", "append": "append"}
_TYPES = (bool, int, float, str, list, dict)
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_ALLOWED = _LETTERS | frozenset("0123456789_")


class MetricRecorder:
    """`scope.metrics`."""

    def __init__(self, prediction: ActivePrediction | None) -> None:
        self._prediction = prediction

    def record(self, key: str, value: Any, mode: str | None = None) -> None:  # noqa: ANN401
        """Record a metric; outside a prediction it is ignored.

        Raises:
            ValueError: the name is not allowed.
            TypeError: the value's type or the mode is not, or the type changes.
        """
        if self._prediction is None:
            return
        check_name(key)
        if value is None:
            self.delete(key)
            return
        if mode is not None and mode not in _MODES:
            raise TypeError(
                f"Invalid metric mode: '{mode}'. Expected 'replace', 'incr', or 'append'."
            )
        kind = self._check_type(key, value, mode)
        if isinstance(value, float) and not math.isfinite(value):
            return
        self._prediction.metric_types[key] = kind
        self._send(key, _to_json(value), _MODES[mode or "replace"])

    def delete(self, key: str) -> None:
        """Forget a metric; needed before its type changes."""
        if self._prediction is not None:
            check_name(key)
            self._prediction.metric_types.pop(key, None)
            self._send(key, b"null", "replace")

    def __setitem__(self, key: str, value: Any) -> None:  # noqa: ANN401
        """Record a metric, as `record` does."""
        self.record(key, value)

    def __delitem__(self, key: str) -> None:
        """Forget a metric, as `delete` does."""
        self.delete(key)

    def __repr__(self) -> str:
        names = self._prediction.metric_types if self._prediction else ()
        return f"MetricRecorder(keys={len(names)})"

    def _check_type(self, key: str, value: object, mode: str | None) -> str:
        kind = next((known.__name__ for known in _TYPES if isinstance(value, known)), None)
        if kind is None:
            raise TypeError(
                f"Unsupported metric value type: {type(value).__name__}. "
                "Expected bool, int, float, str, list, or dict."
            )
        if mode == "incr" and kind not in ("int", "float"):
            raise TypeError(f"Increment mode requires int or float, got {kind}")
        before = self._prediction.metric_types.get(key) if self._prediction else None
        if before not in (None, kind):
            raise TypeError(
                f"Metric '{key}' has type {before}, cannot set to {kind} without deleting first"
            )
        return kind

    def _send(self, key: str, value: bytes, mode: MetricMode) -> None:
        if self._prediction is not None and not self._prediction.has_ended:
            self._prediction.send(
                Metric(id=self._prediction.request.id, name=key, value=value, mode=mode)
            )


class Scope:
    """The scope that `cog.current_scope()` returns."""

    def __init__(self, prediction: ActivePrediction | None) -> None:
        self.metrics = MetricRecorder(prediction)
        self.context: dict[str, str] = dict(prediction.request.context) if prediction else {}

    def record_metric(self, key: str, value: Any, mode: str | None = None) -> None:  # noqa: ANN401
        """Record a metric, as `metrics.record` does."""
        self.metrics.record(key, value, mode)

    def __repr__(self) -> str:
        return f"Scope({self.metrics!r})"


def check_name(name: str) -> None:
    """Refuse a metric's name that Cog does not accept.

    Raises:
        ValueError: the name is not allowed.
        TypeError: the name is not a text.
    """
    if not isinstance(name, str):
        raise TypeError(f"argument 'key': '{type(name).__name__}' object cannot be cast as 'str'")
    problem = _name_problem(name)
    if problem is not None:
        raise ValueError(problem)


def _name_problem(name: str) -> str | None:
    segments = name.split(".")
    if not name:
        return "metric name must not be empty"
    if len(name) > _MOST_CHARACTERS:
        return (
            f"metric name must be {_MOST_CHARACTERS} characters or fewer "
            f"(got {len(name)} characters)"
        )
    if name == "predict_time":
        return "'predict_time' is reserved by the runtime"
    if name.startswith("cog."):
        return "the 'cog.' prefix is reserved for system metrics"
    if len(segments) > _MOST_SEGMENTS:
        return (
            f"metric name must have at most {_MOST_SEGMENTS} dot-separated segments "
            f"(got {len(segments)})"
        )
    if name.startswith("."):
        return "metric name must not start with a dot"
    if name.endswith("."):
        return "metric name must not end with a dot"
    return next(filter(None, map(_segment_problem, segments)), None)


def _segment_problem(segment: str) -> str | None:
    if not segment:
        return "metric name must not contain empty segments (consecutive dots)"
    if segment[0] not in _LETTERS:
        return f"metric name segment '{segment}' must start with a letter"
    foreign = next((letter for letter in segment if letter not in _ALLOWED), None)
    if foreign is not None:
        return f"metric name segment '{segment}' contains invalid character '{foreign}'"
    if segment.endswith("_"):
        return f"metric name segment '{segment}' must end with a letter or digit"
    if "__" in segment:
        return f"metric name segment '{segment}' must not contain consecutive underscores"
    return None


def _to_json(value: object) -> bytes:
    try:
        plain = json.loads(json.dumps(value), parse_constant=lambda _name: None)
    except ValueError as error:
        raise TypeError(f"Unsupported metric value: {error}") from error
    return msgspec.json.encode(plain)


def install_scope() -> None:
    """Make `cog.current_scope`, `self.scope` and everything built on them return this scope.

    All of these call one function of coglet, which `install_scope` replaces. The function is
    private, because coglet has no public alternative.
    """
    setattr(coglet._sdk, "current_scope", lambda: Scope(find_active()))  # noqa: B010 - typed
