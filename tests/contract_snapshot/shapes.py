"""The shape of values: the path of each entry with its type, without what changes."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

_DIGESTS = re.compile(r"\b[0-9a-f]{16,}\b|\bpred_[0-9a-f]+\b")
_DOCUMENT = "openapi_schema"  # the part of the OpenAPI document has its entries
_TOLD_ONCE = ("receipt", "report", "recipe", "versions")
_ALIKE = re.compile(r"\b(layer|layers|blocks)\.\d+")


def entries(value: object, path: str = "") -> Iterator[str]:
    """Yield `path: type` of each leaf of a JSON value; a list's items share one path."""
    if isinstance(value, dict) and value and not path.endswith(_DOCUMENT):
        for name, inner in value.items():
            yield from entries(inner, f"{path}.{nameless(name)}" if path else nameless(name))
    elif isinstance(value, list) and value:
        for inner in value:
            yield from entries(inner, f"{path}[]")
    else:
        yield f"{path}: {'null' if value is None else type(value).__name__}"


def nameless(text: str) -> str:
    """Return a name in which digests, ids and numbers of layers have a placeholder."""
    return _ALIKE.sub(r"\1.N", _DIGESTS.sub("ID", text))


def shortened(line: str) -> str:
    """Cut an entry inside a report, receipt or recipe, which the part of answers has."""
    return next((name for name in _TOLD_ONCE if line.startswith(f"{name}.")), line)


def joined_types(lines: Iterable[str]) -> list[str]:
    """Join the types that one path has in several answers: `path: float|null`."""
    types: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        path, _, kind = line.rpartition(": ")
        types[path].add(kind)
    return [f"{path}: {'|'.join(sorted(kinds))}" for path, kinds in types.items()]


def fields_by_type(lines: Iterable[str]) -> list[str]:
    """Join the fields of one type in one object: `/adapters str: base, id`."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in sorted(lines):
        path, _, kind = line.rpartition(": ")
        owner, _, name = path.rpartition("." if "." in path else " ")
        found[f"{owner} {kind}" if path else line].append(name)
    return [
        f"{title}: {', '.join(names)}" if any(names) else title for title, names in found.items()
    ]


def without_twins(lines: Iterable[str]) -> list[str]:
    """Count by title what is said of trainings as of predictions, in place of saying it twice."""
    known = {*lines}
    twins = {line for line in known if (twin := _of_prediction(line)) != line and twin in known}
    titles = Counter(line.split(":")[0].split(".")[0].split(" ")[0] for line in twins)
    counted = [f"{title} has {count} more lines as predictions" for title, count in titles.items()]
    return [*(known - twins), *counted]


def _of_prediction(line: str) -> str:
    return line.replace("training", "prediction").replace("Training", "Prediction")
