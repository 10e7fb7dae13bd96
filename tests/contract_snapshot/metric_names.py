"""The metrics: name, type, labels and buckets, as `GET /metrics` shows them."""

import re
from collections import defaultdict
from collections.abc import Iterator

_TYPE = re.compile(r"^# TYPE (cog_\w+) (\w+)$", re.MULTILINE)
_SERIES = re.compile(r"^(cog_\w+?)(?:_bucket|_count|_sum)?(?:\{(.*)\})? \S+$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_LISTED = ("le", "budget")  # their values are lists of the server's own


def metric_names(text: str) -> Iterator[str]:
    """Yield a line for each metric of the project's own, and one for each list of values."""
    labels: dict[str, set[str]] = defaultdict(set)
    listed: dict[str, dict[str, None]] = defaultdict(dict)
    for name, inside in _SERIES.findall(text):
        for label, value in _LABEL.findall(inside):
            labels[name].add(label)
            if label in _LISTED:
                listed[label][value] = None
    plain = []
    for name, kind in _TYPE.findall(text):
        if kind == "gauge" and not labels[name]:
            plain.append(name)
        else:
            yield f"{name} {kind} labels {','.join(sorted(labels[name])) or 'none'}"
    for first in range(0, len(plain), 4):
        yield " ".join([*sorted(plain)[first : first + 4], "gauges labels none"])
    yield from (f"{title} is one of {', '.join(values)}" for title, values in listed.items())
