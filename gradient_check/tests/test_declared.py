"""A declared stop is a note where it is found, and a warning where it is not."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradient_check.check import check_gradients
from gradient_check.exam.known.hosts import rows, squares
from gradient_check.findings.examination import Examination
from gradient_check.findings.report import Place
from gradient_check.instruments.declared import DeclaredStops

PLACE = Place("blocks.1 (Block)", "model.py:7: return a * b.detach()")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"blocks\.\d", True),
        ("blocks", False),
        ("b.detach()", True),
        ("model.py:7", True),
        ("model.py:8", False),
        ("b.detach(", True),
        (r"b\.detach\(\)", True),
        (r"model\.py:\d: return .*detach", True),
        (r"(a|b)\.detach\(\)$", True),
        (r"c\.detach\(\)", False),
        ("return()", False),
        ("*", True),
        ("(", True),
        ("[", False),
    ],
)
def test_a_stop_is_declared_by_module_or_line(pattern: str, expected: bool) -> None:
    stops = DeclaredStops([pattern])
    assert stops.admits(PLACE) is expected
    assert stops.found == ({pattern} if expected else set())


def test_a_stop_is_declared_by_the_line_inside_its_block() -> None:
    place = Place("a", "model.py:6: with torch.no_grad():", "model.py:7: target = self.net(x)")
    assert DeclaredStops(["target = self.net"]).admits(place)
    assert DeclaredStops(["torch.no_grad()"]).admits(place)
    assert not DeclaredStops(["other"]).admits(place)


def test_a_regex_of_names_is_none_of_lines() -> None:
    assert DeclaredStops(["return.*"]).admits(PLACE)
    assert not DeclaredStops(["return.*"], names=["returns", "blocks.1"]).admits(PLACE)
    assert DeclaredStops(["b.detach()"], names=["returns", "blocks.1"]).admits(PLACE)


def test_a_parameter_is_declared_by_its_whole_name() -> None:
    stops = DeclaredStops([r"target\..*", "head"])
    assert stops.names(["target.weight", "head.weight"]) == ["target.weight"]
    assert stops.found == {r"target\..*"}


def test_what_is_found_is_a_note_and_what_is_not_a_warning() -> None:
    exam, stops = Examination(), DeclaredStops(["b.detach()", "gone"])
    assert stops.admits(PLACE)
    stops.note(exam, ["a"], PLACE)
    stops.report_absent(exam)
    levels = [(finding.level, finding.code) for finding in exam.findings]
    assert levels == [("NOTE", "stop-gradient"), ("WARN", "stop-gradient")]
    assert "'gone'" in exam.findings[1].message
    assert "'b.detach()'" not in exam.findings[1].message


def test_a_stop_without_a_place_is_not_declared() -> None:
    assert not DeclaredStops([".*"]).admits(Place())


class Routed(nn.Module):
    """Sends each row to two of its experts, by a router that does not train what is below it."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.router = nn.Linear(6, 8), Router()
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.enter(x))
        weights, places = self.router(h)
        shares = [(weights * (places == n)).sum(-1, keepdim=True) for n in range(4)]
        return h + sum(
            expert(h) * share for expert, share in zip(self.experts, shares, strict=True)
        )


class Router(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 4)

    def forward(self, h: Tensor) -> Any:
        return self.gate(h.detach()).softmax(-1).topk(2, -1)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("declared", ["router", "h.detach()"])
def test_a_declared_router_holds_its_choice_and_not_its_weights(declared: str, seed: int) -> None:
    torch.manual_seed(seed)
    report = check_gradients(Routed(), rows(12, 6), squares, stop_gradients=[declared])
    assert report.passed
    assert {"stop-gradient"} <= {*report.codes} <= {"stop-gradient", "unverified"}


class Declared(nn.Module):
    """Passes twice its gradient, has a stop, and a head that nothing uses."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.head = nn.Linear(6, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.enter(x))
        turned = Scaled.apply(h)
        return turned - h.roll(1, 0).detach()


class Scaled(torch.autograd.Function):
    """Passes twice the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return 2 * grads[0]


@pytest.mark.parametrize("kind", [list, lambda patterns: patterns[0]], ids=["a list", "a text"])
@pytest.mark.parametrize("stop", ["roll(1, 0).detach()", r"roll\(.*\)\.detach"])
@pytest.mark.parametrize("turned", ["Scaled.apply(h)", r"Scaled\.apply", r"turned\s*="])
@pytest.mark.parametrize("argument", ["surrogate_gradients", "reversed_gradients"])
def test_a_pattern_is_a_text_or_a_regex_and_one_text_is_one_pattern(
    kind: Any, stop: str, turned: str, argument: str
) -> None:
    torch.manual_seed(0)
    declared: Any = {turned: 2.0} if argument == "reversed_gradients" else kind([turned])
    named: dict[str, Any] = {argument: declared}
    report = check_gradients(
        Declared(),
        rows(8, 6),
        squares,
        unused=kind([r"head\..*"]),
        stop_gradients=kind([stop]),
        **named,
    )
    assert report.passed
    assert {f.level for f in report.findings} == {"NOTE"}


def test_a_regex_of_one_stop_excuses_no_other() -> None:
    torch.manual_seed(0)
    report = check_gradients(
        Declared(), rows(8, 6), squares, unused="head.*", stop_gradients=r"roll\(.*\)\.detach"
    )
    assert [f.code for f in report.findings if f.level == "FAIL"] == ["gradient-wrong"]
