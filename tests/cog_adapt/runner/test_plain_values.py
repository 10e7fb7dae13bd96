"""Plain values are known, and compared up to the last digits of their numbers."""

from typing import Any

import numpy as np
import pytest
import torch

from cog_adapt.runner.data.plain_values import alike, not_plain


@pytest.mark.parametrize("value", ["a", 1, 1.5, True, None, [1, {"a": (2.0, "b")}], {}])
def test_plain_values_are_plain(value: Any) -> None:
    assert not_plain(value) is None


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (torch.ones(1), "torch.Tensor"),
        ([np.float32(1)], "numpy.float32"),
        ({"a": [{1, 2}]}, "set"),
        ({1: "a"}, "int as a key"),
    ],
)
def test_other_values_are_named(value: Any, kind: str) -> None:
    assert kind in (not_plain(value) or "")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (1.0, 1.0001, True),
        (1.0, 2.0, False),
        (float("nan"), float("nan"), True),
        ([{"a": 1.0}], [{"a": 1.001}], True),
        ([1.0], [1.0, 1.0], False),
        ({"a": "b"}, {"a": "c"}, False),
        ({"a": 1}, {"b": 1}, False),
    ],
)
def test_values_are_alike_up_to_their_last_digits(one: Any, other: Any, expected: bool) -> None:
    assert alike(one, other) is expected
