"""The graph of a loss is walked whole, each node once."""

import torch
from torch import nn

from gradient_check.instruments.graph import leaf_of, nodes, reached_leaves
from gradient_check.tests.present import present


def test_every_node_is_met_once_the_start_first() -> None:
    x = nn.Parameter(torch.ones(2))
    doubled = x * 2
    total = (doubled + doubled.sin()).sum()
    found = list(nodes(total.grad_fn))
    assert found[0] is total.grad_fn
    assert len(found) == len(set(found))
    names = sorted(type(node).__name__.removesuffix("0") for node in found)
    assert names == ["AccumulateGrad", "AddBackward", "MulBackward", "SinBackward", "SumBackward"]


def test_without_a_graph_there_are_no_nodes() -> None:
    assert list(nodes(None)) == []


def test_a_leaf_is_told_from_an_inner_node() -> None:
    x = nn.Parameter(torch.ones(2))
    total = x.sum()
    (accumulate,) = [node for node, _ in present(total.grad_fn).next_functions]
    assert leaf_of(accumulate) is x
    assert leaf_of(total.grad_fn) is None


def test_the_leaves_that_a_loss_reaches() -> None:
    used, unused, frozen = (nn.Parameter(torch.ones(2)) for _ in "abc")
    frozen.requires_grad_(False)
    total = (used * frozen).sum() + unused.detach().sum()
    assert reached_leaves(total) == {id(used): used}


def test_a_leaf_reaches_itself_if_it_takes_a_gradient() -> None:
    leaf = nn.Parameter(torch.ones(()))
    assert list(reached_leaves(leaf).values()) == [leaf]
    assert reached_leaves(torch.ones(())) == {}
