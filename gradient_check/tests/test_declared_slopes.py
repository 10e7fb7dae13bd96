"""A gradient that is declared to be no slope, or a multiple of it, is told from a mistake."""

import ast
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.check import check_gradients
from gradient_check.exam.known.hosts import rows
from gradient_check.findings.report import Finding, GradientReport
from gradient_check.phases.errors import ConfigError

X = rows(8, 6)
DOMAINS = torch.tensor([0, 1, 0, 1, 0, 1, 0, 1])
CLASSES = torch.arange(8) % 3


class Reverse(torch.autograd.Function):
    """Passes values on, and gradients back times -0.3."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -0.3 * gradient


reverse = Reverse.apply


class NewReverse(torch.autograd.Function):
    """The same, with a context that is set up apart."""

    @staticmethod
    def forward(x: Tensor, factor: float) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return ctx.factor * gradient, None


class Reversal(nn.Module):
    """A module that reverses."""

    def forward(self, x: Tensor) -> Tensor:
        return Reverse.apply(x)


class Dann(nn.Module):
    """A trunk with a head of its own, and one of domains that trains the trunk against it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.trunk = nn.Sequential(nn.Linear(6, 10), nn.Tanh())
        self.head = nn.Linear(10, 3)
        self.domain = nn.Linear(10, 2)
        self.reversal: nn.Module = Reversal()

    def reversed(self, h: Tensor) -> Tensor:
        return self.reversal(h)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.trunk(x)
        return self.head(h), self.domain(self.reversed(h))


class ByAlias(Dann):
    def reversed(self, h: Tensor) -> Tensor:
        return reverse(h)


class ByNewFunction(Dann):
    def reversed(self, h: Tensor) -> Tensor:
        return NewReverse.apply(h, -0.3)


class ByHook(Dann):
    def reversed(self, h: Tensor) -> Tensor:
        h = 1 * h
        if h.requires_grad:
            h.register_hook(lambda gradient: -0.3 * gradient)
        return h


class ByDetach(Dann):
    def reversed(self, h: Tensor) -> Tensor:
        return 1.3 * h.detach() - 0.3 * h


class ByModuleHook(Dann):
    def __init__(self) -> None:
        super().__init__()

        def scale(_: nn.Module, given: Any, __: Any) -> Any:
            return (-0.3 * given[0],)

        self.reversal = nn.Identity()
        self.reversal.register_full_backward_hook(scale)


class Around(Dann):
    """Reverses inside of a module with parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.adversary = nn.Sequential(nn.Linear(10, 10), Reversal(), nn.Tanh(), nn.Linear(10, 2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.trunk(x)
        return self.head(h), self.domain(h) + self.adversary(h)


class Wrong(Dann):
    """Reverses as declared; its head has a mistake besides."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.trunk(x)
        seen = torch.cat([h[:, :5].detach(), h[:, 5:]], 1)
        return self.head(seen), self.domain(self.reversed(h))


def dann_loss(output: tuple[Tensor, Tensor]) -> Tensor:
    classes, domains = output
    losses = F.cross_entropy(classes, CLASSES, reduction="none")
    return losses + F.cross_entropy(domains, DOMAINS, reduction="none")


REVERSALS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "a module": (Dann, "reversal"),
    "the line of the call": (Dann, "return Reverse.apply(x)"),
    "the function's backward": (Dann, "return -0.3 * gradient"),
    "an alias": (ByAlias, "reverse(h)"),
    "a set up context": (ByNewFunction, "NewReverse.apply"),
    "a hook": (ByHook, "h.register_hook"),
    "a detach": (ByDetach, "1.3 * h.detach()"),
    "a module's hook": (ByModuleHook, "reversal"),
    "a module around": (Around, "adversary"),
}


def failures(report: GradientReport) -> list[Finding]:
    return [finding for finding in report.findings if finding.level == "FAIL"]


def said(report: GradientReport) -> list[tuple[str, str]]:
    return [(f.level, f.code) for f in report.findings if f.code != "unverified"]


@pytest.mark.parametrize("name", REVERSALS)
def test_a_declared_reversal_passes_with_a_note(name: str) -> None:
    make, pattern = REVERSALS[name]
    report = check_gradients(make(), X, dann_loss, reversed_gradients={pattern: -0.3})
    assert said(report) == [("NOTE", "reversed-gradient")]


@pytest.mark.parametrize("name", REVERSALS)
@pytest.mark.parametrize("factor", [0.3, -1.0, -0.29])
def test_a_wrong_factor_fails_and_says_the_measured_one(name: str, factor: float) -> None:
    make, pattern = REVERSALS[name]
    report = check_gradients(make(), X, dann_loss, reversed_gradients={pattern: factor})
    first, *_ = failures(report)
    assert first.code == "gradient-wrong"
    assert "the slope times -0.3." in first.message
    assert f"the factor {factor:g}" in first.message


@pytest.mark.parametrize(
    "make", [Dann, ByAlias, ByNewFunction, ByHook, ByModuleHook], ids=lambda m: m.__name__
)
def test_an_undeclared_reversal_fails_and_the_advice_works(make: Callable[[], nn.Module]) -> None:
    (failure,) = failures(check_gradients(make(), X, dann_loss))
    assert failure.code == "gradient-wrong"
    assert failure.line
    _, _, rest = failure.message.partition("reversed_gradients=")
    advised: dict[str, float] = ast.literal_eval(rest.partition("`")[0])
    assert list(advised.values()) == [-0.3]
    assert said(check_gradients(make(), X, dann_loss, reversed_gradients=advised)) == [
        ("NOTE", "reversed-gradient")
    ]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_factors_are_measured_in_16_bits_too(precision: str) -> None:
    right, wrong = (
        check_gradients(Dann(), X, dann_loss, precision=precision, reversed_gradients=declared)
        for declared in ({"reversal": -0.3}, {"reversal": 0.3})
    )
    assert said(right) == [("NOTE", "reversed-gradient")]
    assert "the slope times -0.3." in failures(wrong)[0].message


def test_a_large_module_is_compared_around_a_declared_reversal() -> None:
    class Large(Dann):
        def __init__(self) -> None:
            super().__init__()
            self.trunk = nn.Sequential(
                nn.Linear(6, 600), nn.Tanh(), nn.Linear(600, 600), nn.Tanh(), nn.Linear(600, 10)
            )

    assert check_gradients(Large(), X, dann_loss, reversed_gradients={"reversal": -0.3}).passed
    (failure,) = failures(check_gradients(Large(), X, dann_loss))
    assert "-0.3}" in failure.message


def test_one_of_two_reversals_is_told_from_the_other() -> None:
    class Two(Dann):
        def __init__(self) -> None:
            super().__init__()
            self.second = Reversal()

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            h = self.trunk(x)
            return self.head(h), self.domain(self.second(self.reversal(h).tanh()))

    declared = {"reversal": -0.3, "second": -0.3}
    report = check_gradients(Two(), X, dann_loss, reversed_gradients=declared)
    assert said(report) == [("NOTE", "reversed-gradient")] * 2
    report = check_gradients(Two(), X, dann_loss, reversed_gradients={**declared, "second": 2})
    first, *_ = failures(report)
    assert "'second'" in first.message
    assert "the slope times -0.3." in first.message
    assert failures(check_gradients(Two(), X, dann_loss, reversed_gradients={"reversal": -0.3}))


def test_the_name_of_a_module_is_no_part_of_a_line() -> None:
    net = nn.Sequential(Reversal(), nn.Linear(6, 5), Reversal(), nn.Linear(5, 2))
    report = check_gradients(net, X, mean_square, reversed_gradients={"3": -0.3})
    first, *_ = failures(report)
    assert first.module == "3 (Linear)"
    assert "the slope times 1." in first.message


def test_functions_are_as_they_were_after_the_test() -> None:
    before = [dict(vars(kind)) for kind in (Reverse, NewReverse, Spike)]
    check_gradients(ByNewFunction(), X, dann_loss, reversed_gradients={"NewReverse": -0.3})
    check_gradients(Spiking(), X, mean_square, surrogate_gradients=["Spike.apply"])
    check_gradients(Dann(), X, dann_loss)
    assert [dict(vars(kind)) for kind in (Reverse, NewReverse, Spike)] == before


def test_a_mistake_beside_a_declared_reversal_is_found_with_its_line() -> None:
    report = check_gradients(Wrong(), X, dann_loss, reversed_gradients={"reversal": -0.3})
    (failure,) = failures(report)
    assert failure.code == "gradient-wrong"
    assert "h[:, :5].detach()" in (failure.line or "")


def test_a_reversal_that_is_not_there_is_a_warning() -> None:
    report = check_gradients(Dann(), X, dann_loss, reversed_gradients={"reversal": -0.3, "gone": 2})
    assert said(report) == [("WARN", "reversed-gradient"), ("NOTE", "reversed-gradient")]
    assert "'gone'" in report.findings[0].message


def test_a_declared_reversal_of_a_plain_module_fails() -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))
    report = check_gradients(net, X, lambda y: y.square().mean(1), reversed_gradients={"1": -1})
    first, *_ = failures(report)
    assert "the slope times 1." in first.message


def test_a_parameters_scaled_gradient_is_declared_by_its_name() -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))
    weight: Any = net[0].weight
    weight.register_hook(lambda gradient: 0.1 * gradient)

    def loss(y: Tensor) -> Tensor:
        return y.square().mean(1)

    declared = {r"0\.weight": 0.1}
    assert said(check_gradients(net, X, loss, reversed_gradients=declared)) == [
        ("NOTE", "reversed-gradient")
    ]
    assert failures(check_gradients(net, X, loss, reversed_gradients={r"0\.weight": 0.2}))
    (failure,) = failures(check_gradients(net, X, loss))
    assert "0.1" in failure.message.partition("reversed_gradients")[2]


class Spike(torch.autograd.Function):
    """A step, with the slope of a sigmoid for its gradient."""

    @staticmethod
    def forward(ctx: Any, v: Tensor) -> Tensor:
        ctx.save_for_backward(v)
        return (v > 0).float()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (v,) = ctx.saved_tensors
        return gradient / (1 + v.abs()) ** 2


class Spiking(nn.Module):
    """A layer of neurons that spike over some steps, and a readout."""

    def __init__(self, broken: bool = False) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.enter, self.again, self.out = nn.Linear(6, 9), nn.Linear(9, 9), nn.Linear(9, 3)
        self.decay = nn.Parameter(torch.tensor(0.8))
        self.broken = broken

    def forward(self, x: Tensor) -> Tensor:
        v = spikes = x.new_zeros(len(x), 9)
        total = x.new_zeros(len(x), 3)
        for _ in range(4):
            v = self.decay * v + self.enter(x) + self.again(spikes)
            v = v - (0.3 * self.enter(x).detach() if self.broken else 0.0)
            spikes = Spike.apply(v - 0.2)
            total = total + self.out(spikes) + 0.1 * v[:, :3]
        return total


class Clipped(torch.autograd.Function):
    """Passes values on, and the signs of gradients back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.sign() * 0.01


class Clipping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.below, self.above = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.above(Clipped.apply(self.below(x).tanh()))


class Quantizing(nn.Module):
    """A VQ code with a straight-through gradient, in a module of its own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.encoder, self.quantizer, self.decoder = nn.Linear(6, 4), Quantizer(), nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        code, losses = self.quantizer(self.encoder(x))
        return (self.decoder(code) - x).square().mean(1) + losses


class Quantizer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Parameter(torch.randn(7, 4))

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        code = self.codes[torch.cdist(h, self.codes).argmin(1)]
        losses = (code - h.detach()).square().mean(1) + 0.25 * (h - code.detach()).square().mean(1)
        return h + (code - h).detach(), losses


def mean_square(y: Tensor) -> Tensor:
    return (y - 0.3).square().mean(1)


SURROGATES: dict[str, tuple[Callable[[], nn.Module], str, Callable[..., Tensor]]] = {
    "spikes by line": (Spiking, "Spike.apply", mean_square),
    "spikes by backward": (Spiking, "return gradient / (1 + v.abs()) ** 2", mean_square),
    "signs": (Clipping, "Clipped.apply", mean_square),
    "a quantizer": (Quantizing, "quantizer", lambda losses: losses),
}


@pytest.mark.parametrize("name", SURROGATES)
def test_a_declared_surrogate_passes_with_a_note(name: str) -> None:
    make, pattern, loss = SURROGATES[name]
    report = check_gradients(make(), X, loss, surrogate_gradients=[pattern])
    assert said(report) == [("NOTE", "surrogate")]


def test_gradients_around_a_surrogate_must_be_right_given_its_own() -> None:
    report = check_gradients(Spiking(True), X, mean_square, surrogate_gradients=["Spike.apply"])
    (failure,) = failures(report)
    assert failure.code == "gradient-wrong"
    assert "self.enter(x).detach()" in (failure.line or "")
    assert set(failure.parameters) <= {"enter.weight", "enter.bias"}


class Downstream(nn.Module):
    """Spikes whose readout has lost a part of its gradient."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.enter, self.middle, self.out = nn.Linear(6, 9), nn.Linear(9, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        v = self.enter(x)
        h = self.middle(Spike.apply(v)).tanh() + v[:, :8]
        return self.out(h + 0.7 * h.sin().detach())


def test_a_mistake_behind_a_surrogate_is_found_with_its_line() -> None:
    report = check_gradients(Downstream(), X, mean_square, surrogate_gradients=["Spike.apply"])
    (failure,) = failures(report)
    assert failure.code == "gradient-wrong"
    assert "h.sin().detach()" in (failure.line or "")
    assert "enter.weight" in failure.parameters


class Masking(torch.autograd.Function):
    """Passes values on, and back the gradients that a mask leaves."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(mask)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient * ctx.saved_tensors[0], None


class Masked(nn.Module):
    def __init__(self, mask: list[float]) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.below, self.above = nn.Linear(6, 4), nn.Linear(4, 3)
        self.register_buffer("mask", torch.tensor(mask))

    def forward(self, x: Tensor) -> Tensor:
        mask: Any = self.mask
        return self.above(Masking.apply(self.below(x), mask))


@pytest.mark.parametrize("mask", [[0.0, 1, 1, 0], [0.0, 0, 0, 0]])
def test_a_surrogate_may_pass_nothing_back(mask: list[float]) -> None:
    report = check_gradients(Masked(mask), X, mean_square, surrogate_gradients=["Masking.apply"])
    assert report.passed
    assert not check_gradients(Masked(mask), X, mean_square).passed


def test_an_undeclared_surrogate_fails_and_its_message_names_the_declaration() -> None:
    (failure,) = failures(check_gradients(Clipping(), X, mean_square))
    assert failure.code == "gradient-wrong"
    assert "surrogate_gradients" in failure.message


def test_a_surrogate_that_is_not_there_is_a_warning() -> None:
    report = check_gradients(
        Clipping(), X, mean_square, surrogate_gradients=["Clipped.apply", "gone"]
    )
    assert said(report) == [("WARN", "surrogate"), ("NOTE", "surrogate")]


ADVANTAGES = torch.tensor([1.0, -1, 2, -2, 0.5, -0.5, 1.5, -1.5])


def policy(cls: Any = None) -> nn.Sequential:
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), *(cls or []), nn.Linear(16, 5))


def grpo(module: Any, x: Tensor) -> Tensor:
    logs = module(x).log_softmax(-1).gather(1, (torch.arange(8) % 5)[:, None])[:, 0]
    ratio = (logs - logs.detach()).exp()
    return -(ratio * ADVANTAGES)


FORMS: dict[str, Callable[..., Tensor]] = {
    "rows": grpo,
    "mean": lambda m, x: grpo(m, x).mean(),
    "dot": lambda m, x: torch.dot(grpo(m, x), torch.full((8,), 0.125)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_declared_stop_holds_where_advantages_sum_to_0(form: str) -> None:
    report = check_gradients(policy(), X, FORMS[form], stop_gradients=["logs.detach()"])
    assert said(report) == [("NOTE", "stop-gradient")]


def test_a_declared_stop_of_little_effect_is_found() -> None:
    class Little(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(6, 5), nn.Linear(5, 2)

        def forward(self, x: Tensor) -> Tensor:
            h = self.a(x).tanh()
            return self.b(h) + 1e-5 * h.detach().sum()

    declared = ["h.detach()"]
    report = check_gradients(Little(), X, mean_square, stop_gradients=declared)
    assert said(report) == []


@pytest.mark.parametrize("form", FORMS)
def test_an_undeclared_stop_is_told_where_advantages_sum_to_0(form: str) -> None:
    (failure,) = failures(check_gradients(policy(), X, FORMS[form]))
    assert failure.code == "gradient-wrong"
    assert "logs.detach()" in (failure.line or "")


class Stale(nn.Module):
    """Computes with a copy of its first weights."""

    kept: Tensor | None = None

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(16))

    def forward(self, h: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return h @ self.weight
        self.kept = self.weight.detach().clone() if self.kept is None else self.kept
        return h @ (self.kept + self.weight - self.weight.detach())


def test_a_stale_copy_is_told_where_advantages_sum_to_0() -> None:
    report = check_gradients(policy([Stale()]), X, grpo, stop_gradients=["logs.detach()"])
    assert {f.code for f in failures(report)} & {"gradient-wrong", "stale-forward"}


@pytest.mark.parametrize("factor", [-0.3, 1.0])
def test_a_declared_reversal_holds_where_advantages_sum_to_0(factor: float) -> None:
    report = check_gradients(
        policy([Reversal()]),
        X,
        grpo,
        stop_gradients=["logs.detach()"],
        reversed_gradients={"2": factor},
    )
    assert report.passed is (factor == -0.3)


def test_a_declared_surrogate_holds_where_advantages_sum_to_0() -> None:
    class Signs(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            return Clipped.apply(h)

    report = check_gradients(
        policy([Signs()]),
        X,
        grpo,
        stop_gradients=["logs.detach()"],
        surrogate_gradients=["2"],
    )
    assert report.passed


@pytest.mark.parametrize("factors", [["a"], {"a": 0}, {"a": "b"}, {"a": True}, {1: 2.0}])
def test_factors_are_numbers_by_pattern(factors: Any) -> None:
    with pytest.raises(ConfigError, match="reversed_gradients"):
        check_gradients(nn.Linear(6, 2), X, mean_square, reversed_gradients=factors)
