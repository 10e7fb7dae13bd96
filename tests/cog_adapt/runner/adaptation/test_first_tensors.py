"""An adaptation begins with an earlier adapter's rows, and fresh ones for new labels."""

import pytest
import torch

from cog_adapt.runner.adaptation.first_tensors import going_on, labels_to_learn, part_of
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.modules.adapters import Adapter
from tests.cog_adapt.models import Letters

HEAD = r"head\..*"
ROWS = torch.tensor([[1.0], [2.0], [3.0]])
ADAPTER = Adapter({"head.weight": ROWS.clone(), "fc.bias": ROWS}, ("a", "b", "c"), "head", "0" * 16)


def made_of(tensors):
    def make():
        yield None
        return tensors

    return make


def test_a_part_has_its_labels_in_the_order_asked_for():
    part = part_of(ADAPTER, ["c", "x", "a"], HEAD)
    assert part.labels == ("c", "a")
    assert part.tensors["head.weight"].tolist() == [[3.0], [1.0]]
    assert part.tensors["fc.bias"] is ROWS


def test_new_labels_have_fresh_rows_and_the_adapter_stays():
    fresh = {"head.weight": torch.tensor([[7.0], [8.0]])}
    tensors = finished(going_on(ADAPTER, ("new", "b"), made_of(fresh), HEAD))
    assert tensors["head.weight"].tolist() == [[7.0], [2.0]]
    assert tensors["fc.bias"] is ROWS
    assert fresh["head.weight"].tolist() == [[7.0], [8.0]]


def test_a_task_without_rows_for_new_labels_is_said():
    with pytest.raises(InputError, match="its head.weight has no place for others"):
        finished(going_on(ADAPTER, ("new", "b"), made_of({}), HEAD))


def test_the_adapters_labels_come_first_and_the_examples_new_ones_after():
    examples = [Example("x", "new"), Example("y", "b")]
    assert labels_to_learn(Letters(), examples, ADAPTER) == ("a", "b", "c", "new")
    assert labels_to_learn(Letters(), examples, None) == ("new", "b")


def test_labels_to_learn_are_bounded():
    task = Letters()
    task.max_labels = 4
    assert len(labels_to_learn(task, [Example("x", "new")], ADAPTER)) == 4
    for begin, count in ((ADAPTER, 2), (None, 5)):
        examples = [Example("x", f"new {n}") for n in range(count)]
        with pytest.raises(InputError, match="5 labels, the limit is 4. Give fewer"):
            labels_to_learn(task, examples, begin)
