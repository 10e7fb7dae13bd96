"""The adapters that are ready: the longest unused goes first."""

from typing import Any

import pytest
import torch
from torch import nn

from cog_adapt.runner.inference.served_adapters import ServedAdapters
from cog_adapt.runner.modules.adapters import Adapter
from gradient_check.phases.precision import Precision
from gradient_check.phases.replicas import freeze, make_template
from gradient_check.tests.models import LABELS, ConvNet, seeded_module

FP32 = Precision(torch.device("cpu"))
COPIED = 40  # bytes of the base's buffers, of which each replica has copies


@pytest.fixture
def served():
    base = seeded_module(ConvNet)
    freeze(base)
    return ServedAdapters(make_template(base), FP32, limit=2, most_bytes=48 + 2 * COPIED)


def adapter_of(value):
    return Adapter({"head.bias": torch.full((3,), float(value))}, LABELS, "head", "0" * 16)


def never():
    pytest.fail("it was ready")


def test_an_adapter_is_made_once_while_it_is_kept(served):
    first = served.get("a", lambda: adapter_of(1))
    assert served.get("a", never) is first
    assert first.module.head.bias.tolist() == [1.0] * 3
    assert first.labels == LABELS


def test_the_longest_unused_goes_first(served):
    a, b = (served.get(key, lambda: adapter_of(1)) for key in "ab")
    served.get("a", never)
    served.get("c", lambda: adapter_of(3))
    assert served.get("a", never) is a
    assert served.get("b", lambda: adapter_of(2)) is not b


def test_bytes_are_bounded_too_but_the_one_that_is_asked_for_is_served(served):
    def wide(rows):
        return Adapter({"head.bias": torch.ones(rows)}, LABELS, "head", "0" * 16)

    assert served.get("a", lambda: wide(3)).bytes == served.bytes == 12 + COPIED
    served.get("b", lambda: wide(10))
    assert (served.bytes, len(served)) == (40 + COPIED, 1)
    served.get("c", lambda: wide(100))
    assert (served.bytes, len(served), served.hits, served.misses) == (400 + COPIED, 1, 0, 3)
    served.get("d", lambda: wide(3))
    assert (served.bytes, len(served)) == (12 + COPIED, 1)


def test_as_many_are_asked_together_as_can_be_ready_at_once(served):
    def wide(rows):
        return Adapter({"head.bias": torch.ones(rows)}, LABELS, "head", "0" * 16)

    a, b, c = (wide(3 + number) for number in range(3))
    assert served.most_together([("a", a), ("b", b), ("c", c)]) == 2
    assert served.most_together([("a", a), ("a", a), ("b", b), ("a", a)]) == 4
    assert served.most_together([("a", wide(100)), ("b", b)]) == 1
    assert served.most_together([("a", a), ("b", wide(100))]) == 1
    served.get("a", lambda: a)
    assert served.most_together([("a", None), ("b", b), ("c", c)]) == 2


class Reaching(nn.Module):
    """A head that reads a layer of the trunk, which it does not own."""

    def __init__(self, layer):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(3))
        self.layers = [layer]

    def forward(self, x):
        return x @ self.layers[0].weight[:3].T + self.bias


@pytest.mark.parametrize("reaches", [False, True])
def test_a_part_is_made_without_its_module_unless_it_reaches_outside(reaches):
    base = seeded_module(ConvNet)
    if reaches:
        base.head = Reaching(base.fc)
    freeze(base)
    served = ServedAdapters(make_template(base), FP32, limit=2, most_bytes=2**20)
    one = served.get("a", lambda: adapter_of(1))
    part: Any = one.part("head")
    assert part.bias.tolist() == [1.0] * 3
    assert one.part("head") is part
    assert ("module" in vars(one)) == reaches
    x = torch.ones(2, 32 if reaches else 8)
    whole: Any = one.module
    assert torch.equal(part(x), whole.head(x))


def test_a_removed_adapter_is_let_go_whoever_asked_for_it(served):
    adapter = adapter_of(1)
    for key in ("ann/x", "bob/x"):
        served.get(key, lambda: adapter)
    served.forget("0" * 16)
    assert len(served) == 2
    served.forget(adapter.id)
    assert (len(served), served.bytes) == (0, 0)


def test_what_cannot_be_made_takes_no_place(served):
    served.get("a", lambda: adapter_of(1))

    def failing():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        served.get("b", failing)
    served.get("c", lambda: adapter_of(1))
    served.get("a", never)
