"""Watches a backward node by node, to find where a gradient ended, became zero or not finite."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gradient_check.diagnosis.culprits import is_of_one_element
from gradient_check.findings.report import NOWHERE, Place
from gradient_check.instruments.graph import leaf_of, nodes
from gradient_check.instruments.recording import Recorder
from gradient_check.instruments.sources import definition
from gradient_check.instruments.subject import Subject

Kind = str | None
"""The kind of a gradient: None if it is missing, else "zero", "fine" or "nonfinite"."""


@dataclass
class Passage:
    """The kinds of gradients that entered a node in backward and that left by each edge."""

    came: list[Kind] = field(default_factory=list)
    went: list[Kind] = field(default_factory=list)

    def may_begin(self, bad: Kind) -> bool:
        """Return whether bad gradients can begin here: good ones entered (for NaN: or zeros)."""
        if "nonfinite" in self.came:
            return False
        return bad == "nonfinite" or "fine" in self.came


class BackwardTrace:
    """One forward and backward of the subject, recorded."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.recorder = Recorder()
        self.passages: dict[Any, Passage] = {}
        self.order: list[Any] = []
        self.nodes: list[Any] = []
        self.constant: set[Any] = set()
        self.culprit: Any = None
        subject.loss.recorder = self.recorder
        try:
            with suppress(Exception):
                subject.gradients(self._watch)
        finally:
            subject.loss.recorder = None

    def _watch(self, losses: Tensor) -> None:
        self.passages.clear()
        self.order.clear()
        self.nodes = list(nodes(losses.grad_fn))
        self.constant = {node for node in self.nodes if is_of_one_element(node)}
        for node in self.nodes:
            node.register_hook(self._hook(node))

    def _hook(self, node: Any) -> Any:  # noqa: ANN401 - nodes have no common type in Python
        def note(went: tuple[Tensor | None, ...], came: tuple[Tensor | None, ...]) -> None:
            self.passages[node] = Passage([kind_of(t) for t in came], [kind_of(t) for t in went])
            self.order.append(node)

        return note

    def stopped(self, names: Collection[str], modules: dict[int, str]) -> Place:
        """Find the node that got a gradient and passed none on towards these parameters."""
        return self._first(names, modules, bad=None)

    def spoilt(self, names: Collection[str], modules: dict[int, str], *, nonfinite: bool) -> Place:
        """Find the node that got a good gradient and passed on zeros, or values not finite."""
        return self._first(names, modules, bad="nonfinite" if nonfinite else "zero")

    def _first(self, names: Collection[str], modules: dict[int, str], bad: Kind) -> Place:
        own = self.subject.parameters
        towards = self._leading_to({id(own[name]) for name in names})
        for node in self.order:
            if self.passages[node].may_begin(bad) and bad in self._handed_on(node, towards):
                self.culprit = node
                return self._place(node, modules)
        return NOWHERE

    def _handed_on(self, node: Any, towards: set[Any]) -> set[Kind]:  # noqa: ANN401
        """Return the kinds of gradients that a node passed along its edges to the given nodes."""
        edges = [following for following, _ in node.next_functions]
        went = zip(edges, self.passages[node].went, strict=False)
        return {kind for following, kind in went if following in towards}

    def _leading_to(self, leaves: set[int]) -> set[Any]:
        """Return the nodes from which one of the leaves can be reached."""
        found = {n for n in self.nodes if leaf_of(n) is not None and id(leaf_of(n)) in leaves}
        above: dict[Any, list[Any]] = {}
        for node in self.nodes:
            for following, _ in node.next_functions:
                above.setdefault(following, []).append(node)
        waiting = list(found)
        while waiting:
            fresh = set(above.get(waiting.pop(), ())) - found
            found |= fresh
            waiting.extend(fresh)
        return found

    def _place(self, node: Any, modules: dict[int, str]) -> Place:  # noqa: ANN401
        event = self.recorder.maker(node)
        function = getattr(type(node), "_forward_cls", None)
        place = event.place(modules) if event is not None else NOWHERE
        if function is not None:
            return Place(place.module, definition(function.backward))
        return Place(place.module, place.line or node.name())


def kind_of(tensor: Tensor | None) -> Kind:
    """Return the kind of one gradient, dense or sparse."""
    if tensor is None or not isinstance(tensor, Tensor):
        return None
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    if not bool(torch.isfinite(tensor).all()):
        return "nonfinite"
    return "fine" if bool(tensor.any()) else "zero"
