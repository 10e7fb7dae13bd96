"""Hostile values: patterns, depth, counts, sizes and encodings, for any input, header and path.

The OpenAPI document lists the inputs; each gets values of its type and of other types.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]
_PATTERNS = ("match:([a-z0-9._]+)+!", "match:" + "*a" * 100, "match:" + "(" * 5000, "match:.*.*.*")
_WORDS = ("", " ", "\0", "\u2028", "\U0001f600", "../../etc/passwd", "${jndi:x}", "'; --")


def of_any_type(size: int) -> Iterator[bytes]:
    """Yield JSON of about so many bytes that hardly any input takes."""
    yield from (b"null", b"true", b"[]", b"{}", b"-0", b"1e400", b"NaN", b"9" * min(size, 10**6))
    yield b"[" + b"1," * (size // 2) + b"1]"
    yield b"[" + b"[]," * (size // 3) + b"[]]"
    yield b"[" * min(size, 10**6)
    yield b"[" * 120 + b"]" * 120
    yield b'{"a":' * 100 + b"1" + b"}" * 100
    yield b"{" + b",".join(b'"%d":1' % number for number in range(size // 10)) + b"}"
    yield b'"' + b"a" * size + b'"'
    yield b'"' + b"\\u0041" * (size // 6) + b'"'
    yield b'"\\ud800"'
    yield b'"\xff\xfe"'
    yield b'"' + b'\\"' * (size // 2) + b'"'


def of_type(schema: Schema, size: int) -> Iterator[bytes]:
    """Yield JSON of a property's own type, hostile in number, length or content."""
    types = {each.get("type") for each in (schema, *schema.get("anyOf", ()))}
    if "array" in types:
        yield json.dumps(["a" * 50] * (size // 54)).encode()
        yield json.dumps([f"{number:09}" for number in range(size // 13)]).encode()
        yield json.dumps([{"text": "a", "label": "b"}] * (size // 30)).encode()
        yield json.dumps(["same"] * 1000).encode()
    if "string" in types:
        yield from (json.dumps(text).encode() for text in (*_PATTERNS, *_WORDS, *_sources(size)))
    if "integer" in types or "number" in types:
        yield from (b"-1", b"18446744073709551616", b"1e308", b"0.5", b"9" * 400)


def _sources(size: int) -> Iterator[str]:
    """Yield texts that look like sets of examples, and files of them."""
    row = '{"text": "a", "label": "b"}'
    yield row + "\n" + "\n" * size
    yield f"{row}\n" * (size // len(row))
    yield "," * size
    yield "text,label\n" + "a\n" * (size // 2)
    yield 'text,label\n"' + "a" * size
    yield "[" + "[]," * (size // 3) + "1]"
    yield row + '\n{"text":' + "[" * size
    yield json.dumps({str(number): ["a"] for number in range(size // 14)})
    yield "data:text/csv;base64," + base64.b64encode(b"text,label\n" + b"a,b\n" * 20_000).decode()
    yield "data:," + "%41" * 20_000
    yield "http://127.0.0.1:1/never"


def of_fields(size: int) -> Iterator[bytes]:
    """Yield whole bodies whose fields, other than the inputs, are hostile."""
    long = json.dumps("a" * size)
    for field in ("id", "webhook", "unknown"):
        yield f'{{"{field}": {long}}}'.encode()
        yield f'{{"{field}": {"[" * 100}{"]" * 100}}}'.encode()
    yield json.dumps({"context": {str(number): "a" for number in range(size // 12)}}).encode()
    yield json.dumps({"webhook_events_filter": ["start"] * (size // 9)}).encode()
    yield json.dumps({"webhook_events_filter": ["a" * size]}).encode()
    yield f'{{"context": {{"a": {long}}}}}'.encode()
    yield b'{"retries": ' + b"9" * 400 + b"}"
    yield b"{" + b'"id":"a",' * (size // 9) + b'"id":"b"}'
    yield b"{" + b'"x":{"id":1},' * (size // 13) + b'"id":"b"}'
    yield from (b"", b"[" * size, b'"' * size, b"\xff" * size, b"\x00" * size, b"{}" * (size // 2))
    yield b'{"input":{"text":"' + b"\\" * size


def headers() -> Iterator[dict[str, str]]:
    """Yield headers that the routes read, with unexpected values."""
    long = "a" * 20_000
    values = ("", long, "9" * 5_000, "\x80\xff", ",".join("a" * 5_000), "=;=;" * 4_000, "-1", "NaN")
    for name in (
        *("Prefer", "Cancel-After", "traceparent", "tracestate", "Last-Event-ID", "Accept"),
        *("Content-Type", "Content-Encoding", "Idempotency-Key", "Origin", "X-Forwarded-For"),
    ):
        yield from ({name: value} for value in values)
    yield from ({"Prefer": value} for value in ("wait=1e400", "wait=" + "9" * 400, "wait=-1"))
    yield {"Content-Type": "application/json; charset=utf-16"}


def paths() -> Iterator[tuple[str, str]]:
    """Yield methods and paths whose parts are hostile."""
    for part in (
        "a" * 8_000,
        "%00",
        "%2F" * 2_000,
        "%ff",
        "..%2f..",
        "%F0%9F%98%80",
        "'",
        "a" * 129,
    ):
        yield from (("PUT", f"/predictions/{part}"), ("POST", f"/predictions/{part}/cancel"))
        yield from (("GET", f"/predictions/{part}"), ("GET", f"/predictions/{part}/stream"))
    for query in ("limit=" + "9" * 4_000, "cursor=" + "A" * 8_000, "a&" * 3_000, "limit=-1"):
        yield ("GET", f"/predictions?{query}")
