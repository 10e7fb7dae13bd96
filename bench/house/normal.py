"""Removes from texts and answers everything that changes from run to run."""

import json
import re
import sys
import sysconfig
import tempfile
from collections.abc import Mapping

Json = object
_LONGEST = 400  # a longer text is shown by its kind alone
_WORTH_READING = 20_000  # characters; a longer one is not even searched for what changes
_TEXTS = (
    (r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*", "<traceback>\n"),
    (r"[^\r\n]*\r(?!\n)", ""),
    (r"\[\d\d:\d\d<\d\d:\d\d, [^\]]*\]", "[<progress>]"),
    (r"\bca_[A-Za-z0-9_-]{43}", "<key>"),
    (r"\bpred_[0-9a-f]{12,}", "<id>"),
    (r"\bWyJ[A-Za-z0-9_=-]{40,}", "<cursor>"),
    (r"\bwhsec_[A-Za-z0-9+/=]+", "<secret>"),
    (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<id>"),
    (r"\b(?:[0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{32})\b", "<hex>"),
    (r"\b(?=[a-z]*[0-9])[a-z0-9]{26}\b", "<id>"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|\+00:00)?", "<time>"),
    (r"(127\.0\.0\.1|localhost|0\.0\.0\.0)(:| port )\d+", r"\1\2<port>"),
    (r"(process|pid)( \[?|=)\d+", r"\1\2<pid>"),
    (r"0x[0-9a-f]{6,}", "<address>"),
    (r", line \d+", ", line <n>"),
    (r"(?<![\d.])\d+\.\d{2,}(?:e-\d+)?(?![\d.])", "<n>"),
)
_RULES = tuple((re.compile(pattern), shown) for pattern, shown in _TEXTS)


def normal(text: str, known: Mapping[str, str] | None = None) -> str:
    """Replace ids, times, ports, process numbers, hashes and paths by placeholders.

    Args:
        text: the text of a run.
        known: literal texts of this run, and the placeholder for each.
    """
    places = {sys.prefix: "<venv>", sysconfig.get_path("stdlib"): "<stdlib>"}
    for literal, shown in sorted({**places, **(known or {})}.items(), key=lambda p: -len(p[0])):
        text = text.replace(literal, shown)
    text = re.sub(re.escape(tempfile.gettempdir()) + r"/[^\s\"',:)\]]+", "<temp>", text)
    for pattern, shown in _RULES:
        text = pattern.sub(shown, text)
    return text


def shape(value: Json, known: Mapping[str, str] | None = None) -> Json:
    """Return keys and types; keep short texts, booleans and null."""
    if isinstance(value, dict):
        return {normal(k, known): shape(v, known) for k, v in sorted(value.items())}
    if isinstance(value, list):
        return distinct([shape(item, known) for item in value])
    if isinstance(value, str):
        return _short(value, known)
    if isinstance(value, bool) or value is None:
        return value
    return type(value).__name__


def body_shape(kind: str, body: bytes, known: Mapping[str, str] | None = None) -> Json:
    """Return the shape of an answer's body, by its content type."""
    text = body.decode(errors="backslashreplace")
    if "event-stream" in kind:
        return distinct([_event_shape(part, known) for part in text.split("\n\n") if part])
    if "json" in kind:
        value = json.loads(text)
        is_document = isinstance(value, dict) and "openapi" in value  # has a part of its own
        return sorted(value) if is_document else shape(value, known)
    return _short(text, known)


def _short(text: str, known: Mapping[str, str] | None) -> str:
    shown = normal(text, known) if len(text) <= _WORTH_READING else text
    return shown if len(shown) <= _LONGEST else "a long text"


def _event_shape(part: str, known: Mapping[str, str] | None) -> Json:
    fields = [line.partition(":")[::2] for line in part.splitlines()]
    return {name: _data(value.strip(), known) for name, value in fields if name != "id"}


def _data(text: str, known: Mapping[str, str] | None) -> Json:
    try:
        return shape(json.loads(text), known)
    except json.JSONDecodeError:
        return normal(text, known)


def distinct(values: list[Json]) -> list[Json]:
    """Return each value once, in order."""
    return [json.loads(text) for text in dict.fromkeys(json.dumps(value) for value in values)]


def to_json(value: Json) -> str:
    """Return JSON, sorted and indented, with a newline at its end."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
