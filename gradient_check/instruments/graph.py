"""Walks the autograd graph of a loss without running it."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.autograd.graph import Node


def nodes(start: Node | None) -> Iterator[Any]:
    """Yield every node that `start` reaches, itself first."""
    stack, seen = [start], set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        stack.extend(following for following, _ in node.next_functions)


def leaf_of(node: Any) -> Tensor | None:  # noqa: ANN401 - nodes have no common type in Python
    """Return the leaf tensor whose gradient `node` accumulates, or None."""
    return getattr(node, "variable", None)


def reached_leaves(tensor: Tensor) -> dict[int, Tensor]:
    """Return, by id, the leaves that get a gradient from `tensor` according to the graph."""
    if tensor.grad_fn is None:
        return {id(tensor): tensor} if tensor.requires_grad else {}
    leaves = (leaf_of(node) for node in nodes(tensor.grad_fn))
    return {id(leaf): leaf for leaf in leaves if leaf is not None}
