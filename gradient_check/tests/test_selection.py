"""What is trained is selected by name or by a predicate, and grouped by block."""

import torch
from torch import nn

from gradient_check.instruments.selection import by_layer, group_by_block, select
from gradient_check.tests.flows import tower
from gradient_check.tests.models import TinyTransformer, seeded_module


def mixed() -> nn.Module:
    module = nn.Module()
    module.weight = nn.Parameter(torch.ones(2))
    module.phase = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    module.index = nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False)
    return module


def test_by_default_all_but_integers_are_selected() -> None:
    assert select(mixed(), None) == ["weight", "phase"]


def test_a_regex_is_searched_in_names() -> None:
    assert select(tower(), "inear.b") == ["blocks.0.linear.bias", "blocks.1.linear.bias"]
    assert select(tower(), "^inear") == []


def test_a_predicate_sees_name_and_parameter() -> None:
    assert select(tower(), lambda name, p: p.dim() == 1 and "first" in name) == ["first.bias"]
    assert select(mixed(), lambda name, p: True) == ["weight", "phase"]


def test_a_tie_is_selected_once() -> None:
    names = select(seeded_module(TinyTransformer), "embedding|output")
    assert names == ["embedding.weight"]


def test_parameters_are_grouped_by_the_items_of_the_longest_list() -> None:
    module = tower()
    groups = group_by_block(module, select(module, None))
    assert groups == {
        "first": ["first.weight", "first.bias"],
        "blocks.0": ["blocks.0.linear.weight", "blocks.0.linear.bias"],
        "blocks.1": ["blocks.1.linear.weight", "blocks.1.linear.bias"],
        "head": ["head.weight", "head.bias"],
    }


def test_without_a_list_they_are_grouped_by_child_and_a_list_of_one_is_none() -> None:
    module = nn.Module()
    module.body = nn.Sequential(nn.Sequential(nn.Linear(2, 2)))
    module.scale = nn.Parameter(torch.ones(1))
    names = ["body.0.0.weight", "body.0.0.bias", "scale"]
    assert group_by_block(module, names) == {
        "body": ["body.0.0.weight", "body.0.0.bias"],
        "scale": ["scale"],
    }


def test_what_lies_beside_a_deep_list_is_told_apart() -> None:
    module = nn.Module()
    module.encoder = nn.Module()
    module.encoder.norm = nn.LayerNorm(2)
    module.encoder.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    module.head = nn.Linear(2, 2)
    assert list(group_by_block(module, select(module, None))) == [
        "encoder.norm",
        "encoder.layers.0",
        "encoder.layers.1",
        "head",
    ]


def test_the_longest_of_two_lists_counts() -> None:
    module = nn.Module()
    module.short = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module.long = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    groups = group_by_block(module, select(module, None))
    assert list(groups) == ["short", "long.0", "long.1", "long.2"]


def test_what_lies_deep_beside_a_deep_list_is_grouped_where_the_paths_part() -> None:
    module = nn.Module()
    module.a = nn.Module()
    module.a.b = nn.Module()
    module.a.b.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    module.a.b.norm = nn.Sequential(nn.LayerNorm(2))
    module.a.c = nn.Sequential(nn.Linear(2, 2))
    module.a.scale = nn.Parameter(torch.ones(1))
    names = ["a.b.norm.0.weight", "a.c.0.weight", "a.scale", "a.b.layers.1.bias"]
    assert list(group_by_block(module, names)) == ["a.b.norm", "a.c", "a", "a.b.layers.1"]


def test_norms_are_taken_over_a_layer() -> None:
    assert by_layer({"a.weight": 3.0, "a.bias": 4.0, "w": 1.0}) == {"a": 5.0, "(root)": 1.0}
