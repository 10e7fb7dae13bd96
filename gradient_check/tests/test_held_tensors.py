"""Tensors that hide in attributes, lists, dicts, classes and files are found with their paths."""

import functools
import sys
import types
from typing import Any

import torch
from torch import nn

from gradient_check.instruments import held_tensors
from gradient_check.instruments.held_tensors import inference_tensors, kept_tensors, unregistered


class Keeper(nn.Module):
    kept_on_the_class: torch.Tensor | dict | None = None

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("scale", torch.ones(2))


def nested() -> Any:
    module = nn.Module()
    module.inner = Keeper()
    return module


def paths(module: Any) -> list[str]:
    return [path for path, _ in kept_tensors(module)]


def test_buffers_and_plain_tensors_are_kept_but_parameters_are_not() -> None:
    module = nested()
    module.inner.cache = torch.ones(3)
    assert paths(module) == ["inner.scale", "inner.cache"]
    assert dict(kept_tensors(module))["inner.cache"] is module.inner.cache


def test_lists_and_dicts_are_searched_two_levels_deep() -> None:
    module: Any = nested()
    module.tables = {"a": [torch.ones(1), "text"], "b": torch.ones(1), 3: (torch.ones(1),)}
    module.deep = [[[torch.ones(1)]]]
    assert paths(module)[1:] == ["tables['a'][0]", "tables['b']", "tables[3][0]"]


def test_of_a_long_list_only_the_beginning_is_searched(monkeypatch) -> None:
    monkeypatch.setattr(held_tensors, "MOST_ITEMS", 2)
    module: Any = nn.Module()
    module.history = [torch.ones(1)] * 5
    assert paths(module) == ["history[0]", "history[1]"]


def test_parameters_in_plain_lists_are_unregistered() -> None:
    module = nested()
    module.inner.layers = [nn.Linear(1, 1)]
    module.inner.extra = {"w": nn.Parameter(torch.ones(1)), "known": module.inner.linear.weight}
    hidden = unregistered(module)
    layer = module.inner.layers[0]
    assert hidden == {
        id(layer.weight): "inner.layers[0].weight",
        id(layer.bias): "inner.layers[0].bias",
        id(module.inner.extra["w"]): "inner.extra['w']",
    }


def test_what_objects_classes_and_closures_hold_is_unregistered() -> None:
    module, weight, shift = nested(), nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    module.inner.bag = types.SimpleNamespace(weight=weight)
    module.inner.act = lambda h: h * shift
    module.inner.partial = functools.partial(torch.mul, torch.ones(1, requires_grad=True))
    module.again = module.inner.bag  # what refers to itself ends
    module.inner.bag.back = module
    assert sorted(unregistered(module).values()) == [
        "again.weight",
        "inner.act.shift",
        "inner.partial[1]",
    ]


def test_hidden_networks_are_searched_to_their_bottom_and_lists_to_a_depth() -> None:
    module, layer = nested(), nn.Linear(1, 1, bias=False)
    tower: nn.Module = layer
    for _ in range(9):
        tower = nn.Sequential(tower)
    module.towers = [tower]
    module.deep = [[[[[[[nn.Parameter(torch.ones(1))]]]]]]]
    assert list(unregistered(module)) == [id(layer.weight)]


def test_all_registered_means_none_hidden() -> None:
    assert unregistered(nested()) == {}


def test_inference_tensors_of_classes_and_their_files_are_named(monkeypatch) -> None:
    with torch.inference_mode():
        born = torch.ones(1)
    module = nested()
    assert list(inference_tensors(module)) == []
    monkeypatch.setattr(Keeper, "kept_on_the_class", born)
    monkeypatch.setitem(sys.modules[__name__].__dict__, "TABLE", {"a": 1, "b": born})
    assert sorted(inference_tensors(module)) == [
        "Keeper.kept_on_the_class",
        f"{__name__}.TABLE",
    ]
    monkeypatch.setattr(Keeper, "kept_on_the_class", torch.ones(1))
    assert list(inference_tensors(module)) == [f"{__name__}.TABLE"]
