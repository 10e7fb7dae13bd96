"""The metrics that the model records in one prediction: replaced, added up, or collected."""

from typing import Any

from cog_adapt.server.protocol import MetricMode


def put_metric(metrics: dict[str, Any], name: str, value: Any, mode: MetricMode) -> None:  # noqa: ANN401
    """Store a value under its name: a dot leads into a mapping; None removes the value."""
    *path, leaf = name.split(".")
    for part in path:
        if not isinstance(metrics.get(part), dict):
            metrics[part] = {}
        metrics = metrics[part]
    if value is None:
        metrics.pop(leaf, None)
    elif mode == "increment" and isinstance(metrics.get(leaf), int | float):
        metrics[leaf] += value
    elif mode == "append" and isinstance(metrics.get(leaf), list):
        metrics[leaf].append(value)
    elif mode == "append":
        metrics[leaf] = [metrics[leaf], value] if leaf in metrics else [value]
    else:
        metrics[leaf] = value
