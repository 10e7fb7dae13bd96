"""What answers carry: headers, fields of JSON bodies, and events of streams."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.contract_snapshot.shapes import entries, fields_by_type, joined_types, without_twins
from tests.contract_snapshot.shipped_server import Asked

_VALUES = ("content-type", "cache-control", "www-authenticate", "x-content-type")
_OWN_PART = ("/openapi.json", "/playground", "/docs")
_USUAL = {"content-length", "content-type: application/json"}
_ERROR = 400
_SHARED = ("receipt", "report", "recipe", "versions", "input", "output", "metrics")


def headers(asked: Iterable[Asked]) -> Iterator[str]:
    """Yield the headers of every answer, and of each request those that only some carry.

    Errors are told by their status alone. A header in brackets is not always there; the length
    and kind of a JSON body are left out.
    """
    found: dict[str, list[set[str]]] = defaultdict(list)
    for each in (each for each in asked if each.method != "HEAD"):
        names = {_header(*pair) for pair in each.answer.headers.items()}
        found[_title(each)].append(names)
    everywhere = set.intersection(*(names for sets in found.values() for names in sets))
    yield from (f"every answer | {name}" for name in everywhere)
    for title, sets in found.items():
        always = set.intersection(*sets)
        shown = sorted(always) + sorted(f"({name})" for name in set.union(*sets) - always)
        rest = [name for name in shown if name not in everywhere | _USUAL]
        yield from [f"{title} | {'; '.join(rest)}"] * bool(rest)


def _title(asked: Asked) -> str:
    status = asked.answer.status_code
    return f"{status}" if status >= _ERROR else f"{asked.route} {asked.method} {status}"


def _header(name: str, value: str) -> str:
    return f"{name}: {value}" if name.startswith(_VALUES) else name


def bodies(asked: Iterable[Asked]) -> list[str]:
    """Return the path and type of each field, by the first part of the route, or as an error's.

    What several kinds of answers have inside, such as a report, is told once. Which route answers
    with what is the document's part; inputs are what was sent.
    """
    lines = (line for each in asked if _is_told(each) for line in _fields(each))
    told = without_twins(joined_types(line for line in lines if not line.startswith("input.")))
    return fields_by_type(told)


def _is_told(asked: Asked) -> bool:
    is_elsewhere = asked.route.startswith(_OWN_PART) or "download" in asked.route
    return asked.method != "HEAD" and bool(asked.answer.content) and not is_elsewhere


def _fields(asked: Asked) -> Iterator[str]:
    kind, text = asked.answer.headers.get("content-type", ""), asked.answer.text
    title = f"/{asked.route.split('/')[1]}" if asked.answer.status_code < _ERROR else "error"
    if kind.startswith("application/json"):
        yield from (_shared(title, line) for line in entries(asked.answer.json()))
    elif kind.startswith("text/event-stream"):
        yield from (_shared(title, line) for line in _events(text))


def _shared(title: str, line: str) -> str:
    """Name a field by what it belongs to; a listed record has the fields of a single one."""
    if "event metric value." in line:
        return f"{title} event metric value: dict"
    line = line.replace("chunk", "output")
    line = line.removeprefix("results[].")
    places = [(line.rfind(f"{name}."), name) for name in _SHARED if f"{name}." in f".{line}"]
    place, name = max(places, default=(-1, ""))
    return line[place:] if name else f"{title} {line}"


def _events(text: str) -> Iterator[str]:
    for block in filter(None, text.replace("\r\n", "\n").split("\n\n")):
        lines = [line for line in block.splitlines() if not line.startswith(":")]
        fields = dict(line.partition(": ")[::2] for line in lines)
        name = fields.get("event", "message")
        yield from (f"event {name} {line}" for line in entries(json.loads(fields["data"])))
        yield f"event {name} fields: {' '.join(sorted(fields))}"
