"""What a model records as metrics is put in its place."""

from typing import Any

import pytest

from cog_adapt.server.service.metric_values import put_metric


@pytest.mark.parametrize(
    ("calls", "metrics"),
    [
        ([("a", 1, "replace"), ("a", 2, "replace")], {"a": 2}),
        ([("a", 1, "increment"), ("a", 2, "increment")], {"a": 3}),
        ([("a", "x", "replace"), ("a", 2, "increment")], {"a": 2}),
        ([("a", 1, "append"), ("a", 2, "append"), ("a", [3], "append")], {"a": [1, 2, [3]]}),
        ([("a", 1, "replace"), ("a", 2, "append")], {"a": [1, 2]}),
        ([("a.b", 1, "replace"), ("a.c", 2, "replace")], {"a": {"b": 1, "c": 2}}),
        ([("a", 1, "replace"), ("a.b", 2, "replace")], {"a": {"b": 2}}),
        ([("a", 1, "replace"), ("a", None, "replace"), ("b", None, "append")], {}),
    ],
)
def test_a_value_is_replaced_added_collected_or_removed(calls, metrics):
    found: dict[str, Any] = {}
    for name, value, mode in calls:
        put_metric(found, name, value, mode)
    assert found == metrics
