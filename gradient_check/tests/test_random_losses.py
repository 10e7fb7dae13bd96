"""A loss that draws noise is tested whole under it where that is declared, and warned of else."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.check import check_gradients
from gradient_check.exam.known.hosts import rows, squares
from gradient_check.findings.report import GradientReport
from gradient_check.phases.errors import ConfigError

X = rows(6, 5)
Sound = tuple[nn.Module, Callable[..., Tensor]]


def net(width: int = 5, out: int = 5) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(width, 12), nn.Tanh(), nn.Linear(12, out))


class Timed(nn.Module):
    """Predicts noise from noised values and the embedding of their time."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.body, self.time = net(), nn.Linear(4, 5)

    def embedding(self, time: Tensor) -> Tensor:
        angles = time[:, None] * torch.tensor([1.0, 2.0])
        return torch.cat([angles.sin(), angles.cos()], 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        return self.body(x + self.time(self.embedding(time)))


class HalfDetached(Timed):
    """The same; half of the time embedding gives its layer no gradient."""

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        left, right = self.time(self.embedding(time)).split([2, 3], 1)
        return self.body(x + torch.cat([left.detach(), right], 1))


def denoising(module: Any, x: Tensor) -> Tensor:
    time, noise = torch.rand(len(x)), torch.randn_like(x)
    kept = (1 - time)[:, None]
    return (module(kept.sqrt() * x + (1 - kept).sqrt() * noise, time) - noise).square().mean(1)


def flow_matching(module: Any, x: Tensor) -> Tensor:
    time = torch.empty(len(x)).uniform_()
    noise = torch.empty_like(x).normal_()
    share = time[:, None]
    return (module((1 - share) * x + share * noise, time) - (noise - x)).square().mean(1)


class Sampling(nn.Module):
    """A VAE."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.encoder, self.decoder = nn.Linear(5, 6), nn.Linear(3, 5)

    def forward(self, x: Tensor) -> Tensor:
        mean, log = self.encoder(x).chunk(2, 1)
        sample = mean + torch.randn_like(mean) * (log / 2).exp()
        divergence = 0.5 * (mean.square() + log.exp() - log - 1).sum(1)
        return (self.decoder(sample) - x).square().sum(1) + divergence


class Choosing(nn.Module):
    """Chooses one of four codes by Gumbel noise."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.choose, self.codes = nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.codes(F.gumbel_softmax(self.choose(x), tau=0.7))


def hutchinson(module: Any, x: Tensor) -> Tensor:
    probe = torch.randint(0, 2, x.shape).float() * 2 - 1
    with torch.enable_grad():
        x = x.clone().requires_grad_()
        field = module(x)
        (moved,) = torch.autograd.grad((field * probe).sum(), x, create_graph=True)
    return 0.5 * field.square().sum(1) + (moved * probe).sum(1)


def contrast(module: Any, x: Tensor) -> Tensor:
    one, other = (F.normalize(module(x + 0.1 * torch.randn_like(x))) for _ in range(2))
    return F.cross_entropy(one @ other.T / 0.1, torch.arange(len(x)), reduction="none")


def exploration(module: Any, x: Tensor) -> Tensor:
    chances = torch.distributions.Categorical(logits=module(x))
    action = chances.sample()
    return -chances.log_prob(action) * action.float()


def dropped_inputs(module: Any, x: Tensor) -> Tensor:
    return (module(F.dropout(x, 0.3)) - x).square().mean(1)


def mixed(module: Any, x: Tensor) -> Tensor:
    share = torch.distributions.Beta(0.4, 0.4).sample((len(x), 1))
    other = torch.randperm(len(x))
    blend, target = share * x + (1 - share) * x[other], share * x + (1 - share) * x[other]
    return (module(blend) - target.square()).square().mean(1)


def by_python(module: Any, x: Tensor) -> Tensor:
    noise = torch.tensor([random.gauss(0.0, 1.0) for _ in range(x.numel())]).view_as(x)
    return (module(x + noise) - x).square().mean(1)


SOUND: dict[str, Callable[[], Sound]] = {
    "diffusion": lambda: (Timed(), denoising),
    "flow matching": lambda: (Timed(), flow_matching),
    "VAE": lambda: (Sampling(), lambda losses: losses),
    "Gumbel": lambda: (Choosing(), lambda output: output.square().mean(1)),
    "Hutchinson": lambda: (net(), hutchinson),
    "contrast": lambda: (net(), contrast),
    "policy gradient": lambda: (net(out=3), exploration),
    "dropout of inputs": lambda: (net(), dropped_inputs),
    "mixup": lambda: (net(), mixed),
    "module noise": lambda: (
        nn.Sequential(net(), Jitter(), nn.Linear(5, 3)),
        lambda output: output.square().mean(1),
    ),
}


class Jitter(nn.Module):
    """Adds noise to what passes."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * torch.randn(x.shape)


def report_of(make: Callable[[], Sound], **options: Any) -> GradientReport:
    module, loss = make()
    return check_gradients(module, X, loss, serve_mode="no_grad", **options)


def skipped(report: GradientReport) -> list[str]:
    return [check.name for check in report.checks if check.status == "skipped"]


@pytest.mark.parametrize("name", SOUND)
def test_a_declared_random_loss_is_tested_whole_and_nothing_false_is_said(name: str) -> None:
    report = report_of(SOUND[name], random_loss=True)
    assert set(report.codes) <= {"unverified"}
    assert skipped(report) == []


@pytest.mark.parametrize("name", [n for n in SOUND if n != "dropout of inputs"])
def test_an_undeclared_random_loss_is_a_warning_about_the_loss(name: str) -> None:
    report = report_of(SOUND[name])
    (warning,) = (f for f in report.findings if f.level != "NOTE")
    assert (warning.code, warning.level) == ("random-loss", "WARN")
    assert "random_loss=True" in warning.message
    assert "training" not in warning.message
    assert warning.line is not None
    assert skipped(report) == []


def test_dropout_that_heeds_no_flag_is_told_as_such() -> None:
    (warning,) = report_of(SOUND["dropout of inputs"]).findings
    assert (warning.code, warning.level) == ("random-inference", "WARN")
    assert "F.dropout(x, 0.3)" in (warning.line or "")


@pytest.mark.parametrize("declared", [True, False])
def test_a_half_detached_time_embedding_is_found_with_its_line(declared: bool) -> None:
    report = report_of(lambda: (HalfDetached(), denoising), random_loss=declared)
    (failure,) = (f for f in report.findings if f.level == "FAIL")
    assert failure.code == "gradient-wrong"
    assert "left.detach()" in (failure.line or "")
    assert set(failure.parameters) <= {"time.weight", "time.bias"}


def test_noise_from_outside_torch_leaves_a_check_out_in_words() -> None:
    report = report_of(lambda: (net(), by_python), random_loss=True)
    (note,) = report.findings
    assert (note.code, note.level) == ("random-loss", "NOTE")
    assert "were not compared" in note.message


class Remembering(nn.Module):
    """A layer that answers by what a training forward has left, besides noise."""

    kept: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            Remembering.kept = x.detach().mean(0)
        shift = 0.0 if Remembering.kept is None else Remembering.kept
        return x + torch.randn_like(x) + shift


def test_a_race_is_seen_beside_declared_noise() -> None:
    Remembering.kept = None
    report = report_of(
        lambda: (nn.Sequential(nn.Linear(5, 5), Remembering()), lambda y: y.square().mean(1)),
        random_loss=True,
    )
    assert not report.passed


def test_a_declaration_is_true_or_false() -> None:
    with pytest.raises(ConfigError, match="random_loss is 1"):
        check_gradients(net(), X, lambda y: y, random_loss=1)  # type: ignore[arg-type]


def test_a_sample_without_a_gradient_is_named_where_it_is_drawn() -> None:
    torch.manual_seed(0)

    class Sampled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.judge = nn.Linear(6, 2), nn.Linear(2, 1)

        def forward(self, x: Tensor) -> Tensor:
            spread = torch.distributions.Normal(self.mean(x), 0.3)
            drawn = spread.sample()
            return self.judge(drawn)

    report = check_gradients(Sampled(), rows(8, 6), squares, random_loss=True)
    (finding,) = (f for f in report.findings if f.level == "FAIL")
    assert finding.code == "graph-cut"
    assert "drawn = spread.sample()" in str(finding.line)
