"""The autograd graph of a loss, walked without running it."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.autograd.graph import Node


def nodes(start: Node | None) -> Iterator[Any]:
    """Every node that `start` leads to, itself first."""
    stack, seen = [start], set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        stack.extend(following for following, _ in node.next_functions)


def leaf_of(node: Any) -> Tensor | None:  # noqa: ANN401 - nodes have no common type in Python
    """The leaf tensor whose gradient `node` accumulates, if it does."""
    return getattr(node, "variable", None)


def reached_leaves(tensor: Tensor) -> dict[int, Tensor]:
    """By their ids, the leaves that get a gradient from `tensor`, as far as the graph tells."""
    if tensor.grad_fn is None:
        return {id(tensor): tensor} if tensor.requires_grad else {}
    leaves = (leaf_of(node) for node in nodes(tensor.grad_fn))
    return {id(leaf): leaf for leaf in leaves if leaf is not None}
