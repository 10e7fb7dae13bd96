"""A step is what a plain PyTorch loop does, bit for bit, plus the checks that end a bad run."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from gradient_check.phases.errors import AdaptationError, ModeError
from gradient_check.phases.gradient_step import BatchPart, GradientStep
from gradient_check.phases.precision import Precision
from gradient_check.phases.replicas import (
    freeze,
    make_template,
    modules_in_training,
    training_replica,
)
from gradient_check.tests.models import ConvNet, Curve, TinyTransformer, seeded_module
from gradient_check.tests.present import present

CPU = torch.device("cpu")
FP32 = Precision(CPU)
BF16 = Precision(CPU, torch.bfloat16)
FP16 = Precision(CPU, torch.float16)
RATE = 0.01


def adamw(rate):
    return partial(torch.optim.AdamW, lr=rate, weight_decay=0.0, fused=True)


def replica_of(make):
    base = seeded_module(make)
    freeze(base)
    return training_replica(make_template(base), dict(base.named_parameters()))


def squares(module, batch):
    x, y = batch
    return (module(x).float() - y) ** 2


def batches(count, size=4):
    draw = torch.Generator().manual_seed(5)
    return [(torch.randn(size, 8, generator=draw), torch.randn(size, generator=draw))] * count


def step_on(replica, loss=squares, precision=FP32, clip_norm=math.inf, rate=RATE):
    make = adamw(rate)
    return GradientStep(replica, loss, make, precision, modules_in_training(replica), clip_norm)


def parameters(module):
    return {name: p.detach().clone() for name, p in module.named_parameters()}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one | other)


class Wide(nn.Module):
    """Has more numbers than one tick updates, in several matrices."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 1_600), nn.Linear(1_600, 1_600))
        self.more = nn.ModuleList([nn.Linear(1_600, 1_600) for _ in range(2)])
        self.last = nn.Linear(1_600, 1)

    def forward(self, batch):
        hidden = self.layers(batch)
        for layer in self.more:
            hidden = layer(hidden.tanh())
        return self.last(hidden)[:, 0]


@pytest.mark.parametrize("clip_norm", [1e6, 0.05])
@pytest.mark.parametrize("kind", [Curve, Wide])
def test_steps_are_those_of_a_plain_loop_bit_for_bit(kind, clip_norm):
    plain, replica = seeded_module(kind).train(), replica_of(kind)
    optimizer = torch.optim.AdamW(plain.parameters(), lr=RATE, weight_decay=0.0, fused=True)
    step = step_on(replica, clip_norm=clip_norm)
    for batch in batches(5):
        optimizer.zero_grad()
        loss = squares(plain, batch).mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(plain.parameters(), clip_norm)
        optimizer.step()
        result = step(batch, seed=0)
        assert result.loss == loss.item()
        assert result.gradient_norm == norm.item()
        assert same(parameters(plain), parameters(replica))


@pytest.mark.parametrize(("kind", "ticks"), [(Curve, 1), (Wide, 5)])
def test_an_update_of_many_numbers_takes_ticks_of_its_own(kind, ticks):
    step, (batch, *_) = step_on(replica_of(kind)), batches(1)
    assert len([*step.ticks([BatchPart(batch)], seed=0)]) + 1 == ticks


def test_dropout_of_a_step_is_that_of_its_seed():
    replica = replica_of(ConvNet)
    step = step_on(replica, lambda m, x: m(x))
    x = torch.ones(4, 8)
    step.gradients(x, seed=11)
    plain = seeded_module(ConvNet).train()
    plain.norm.eval()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        plain(x).mean().backward()
    for name, parameter in replica.named_parameters():
        assert torch.equal(present(parameter.grad), present(plain.get_parameter(name).grad)), name


def test_a_whole_step_draws_what_its_forward_alone_draws():
    step = step_on(replica_of(ConvNet), lambda m, x: m(x))
    x = torch.ones(4, 8)
    drawn = {seed: step.forward(x, seed).item() for seed in (11, 12)}
    assert drawn[11] != drawn[12]
    assert step(x, seed=11).loss == drawn[11]


def test_tied_weights_get_the_sum_of_both_gradients():
    ids = torch.tensor([[1, 2, 3, 4, 5, 6]])
    loss = lambda m, x: m(x)[1].pow(2).mean()  # noqa: E731
    replica: Any = replica_of(TinyTransformer)
    step = GradientStep(replica, loss, adamw(RATE), FP32, frozenset())
    step.gradients(ids, seed=0)
    plain: Any = seeded_module(TinyTransformer).eval()
    loss(plain, ids).backward()
    assert torch.equal(replica.embedding.weight.grad, plain.embedding.weight.grad)


def test_the_gradient_is_clipped_to_the_norm_and_reported_before():
    replica = replica_of(Curve)
    step = step_on(replica, lambda m, b: 1000 * squares(m, b), clip_norm=0.5)
    result = step(batches(1)[0], seed=0)
    assert result.gradient_norm > 100
    grads = [p.grad for p in replica.parameters()]
    assert nn.utils.get_total_norm(grads).item() == pytest.approx(0.5, rel=1e-4)


def test_a_forward_alone_changes_nothing_and_gives_the_steps_loss():
    replica = replica_of(Curve)
    before = parameters(replica)
    step = step_on(replica)
    loss = step.forward(batches(1)[0], seed=0)
    assert not loss.requires_grad
    assert same(parameters(replica), before)
    assert step(batches(1)[0], seed=0).loss == loss.item()
    assert not same(parameters(replica), before)


def test_gradients_of_an_earlier_step_are_not_added():
    step = step_on(replica_of(Curve))
    step.gradients(batches(1)[0], seed=0)
    first = [p.grad.clone() for p in step.replica.parameters()]
    step.gradients(batches(1)[0], seed=0)
    assert all(
        torch.equal(a, p.grad) for a, p in zip(first, step.replica.parameters(), strict=True)
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("precision", [FP32, BF16, FP16], ids=str)
def test_a_loss_that_is_not_finite_ends_the_run_before_the_update(value, precision):
    replica = replica_of(Curve)
    before = parameters(replica)
    step = step_on(replica, lambda m, b: squares(m, b) + value, precision)
    with pytest.raises(AdaptationError, match=rf"the loss is {value} before the update"):
        step(batches(1)[0], seed=0)
    assert same(parameters(replica), before)


class Rooted(nn.Module):
    """Its second layer's gradient is infinite: the root of zero."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 2)
        self.second = nn.Linear(8, 2)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.second.bias)

    def forward(self, x):
        return (self.first(x) + self.second(x).abs().sqrt()).sum(-1)


@pytest.mark.parametrize("precision", [FP32, BF16], ids=str)
def test_a_gradient_that_is_not_finite_ends_the_run_by_its_name(precision):
    replica = replica_of(Rooted)
    before = parameters(replica)
    step = step_on(replica, precision=precision)
    with pytest.raises(AdaptationError, match=r"the gradient of second\.weight is not finite"):
        step(batches(1)[0], seed=0)
    assert same(parameters(replica), before)


def test_a_gradient_that_float16_never_makes_finite_ends_the_run_by_its_name():
    replica = replica_of(Rooted)
    before = parameters(replica)
    with pytest.raises(
        AdaptationError, match=r"30 steps in a row .*parameter second\.weight.*bf16"
    ):
        step_on(replica, precision=FP16)(batches(1)[0], seed=0)
    assert same(parameters(replica), before)


def test_a_step_that_float16_voids_is_repeated_and_not_counted():
    replica = replica_of(Curve)
    step = step_on(replica, precision=FP16)
    step.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30)
    result = step(batches(1)[0], seed=0)
    assert result.skipped > 0
    assert {state["step"].item() for state in step.optimizer.state.values()} == {1.0}
    assert math.isfinite(result.gradient_norm)


def test_float16_gradients_are_unscaled_before_they_are_clipped_and_reported():
    norms = {}
    for precision in (FP32, FP16):
        step = step_on(replica_of(Curve), precision=precision)
        norms[precision] = step(batches(1)[0], seed=0).gradient_norm
    assert norms[FP16] == pytest.approx(norms[FP32], rel=0.05)


@pytest.mark.parametrize("precision", [BF16, FP16], ids=str)
def test_the_forward_runs_in_the_compute_dtype_and_the_weights_stay_float32(precision):
    seen = []

    def loss(module, batch):
        out = module(batch[0])
        seen.append(out.dtype)
        return (out.float() - batch[1]) ** 2

    replica = replica_of(Curve)
    before = parameters(replica)
    result = step_on(replica, loss, precision)(batches(1)[0], seed=0)
    assert set(seen) == {precision.compute}
    assert math.isfinite(result.loss)
    assert {p.dtype for p in replica.parameters()} == {torch.float32}
    assert {p.grad.dtype for p in replica.parameters()} == {torch.float32}
    assert not same(parameters(replica), before)


@pytest.mark.parametrize("precision", [FP32, BF16, FP16], ids=str)
def test_each_forward_sees_the_update_before_it(precision):
    step = step_on(replica_of(Curve), precision=precision, rate=0.05)
    losses = [step(batch, seed=0).loss for batch in batches(20)]
    assert len(set(losses)) == 20
    assert losses[-1] < losses[0]


def test_a_tiny_rate_still_moves_float32_masters_of_a_bfloat16_base():
    base = seeded_module(Curve).bfloat16()
    freeze(base)
    replica = training_replica(make_template(base), dict(base.named_parameters()))
    before = parameters(replica)
    step = step_on(replica, precision=BF16, rate=1e-6)
    for batch in batches(3):
        step(batch, seed=0)
    after = parameters(replica)
    assert all(not torch.equal(before[name], after[name]) for name in before)


def test_a_loss_without_a_graph_is_a_mode_error():
    step = step_on(replica_of(Curve), lambda m, b: squares(m, b).detach())
    with pytest.raises(ModeError, match="the loss has no graph although gradients are on"):
        step(batches(1)[0], seed=0)


def test_a_parameter_that_the_loss_does_not_reach_is_left_alone():
    replica = replica_of(Rooted)
    before = parameters(replica)
    step_on(replica, lambda m, b: m.first(b[0]))(batches(1)[0], seed=0)
    after = parameters(replica)
    assert torch.equal(before["second.weight"], after["second.weight"])
    assert not torch.equal(before["first.weight"], after["first.weight"])


class Reads(TorchDispatchMode):
    """Counts what waits for the device: a number that is read, or a copy to the CPU."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        self.count += name in {"_local_scalar_dense", "equal", "nonzero", "is_nonzero"}
        return func(*args, **(kwargs or {}))


@pytest.fixture
def reads(monkeypatch):
    """Counts a step's reads; on the CPU `tolist` and its like reach no dispatcher."""
    watched = Reads()
    for name in ("tolist", "item", "cpu", "numpy", "__bool__", "__float__", "__int__"):
        method = getattr(torch.Tensor, name)

        def count(tensor, *args, method=method):
            watched.count += 1
            return method(tensor, *args)

        monkeypatch.setattr(torch.Tensor, name, count)
    return watched


@pytest.mark.parametrize("precision", [FP32, BF16, FP16], ids=str)
def test_a_step_waits_for_the_device_once(reads, precision):
    step = step_on(replica_of(Curve), precision=precision, clip_norm=0.5)
    step(batches(1)[0], seed=0)
    reads.count = 0
    with reads:
        step(batches(1)[0], seed=0)
    assert reads.count == 1


class Calls(TorchDispatchMode):
    """Counts the operations of a step besides forward and backward, by name."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("layers", [2, 12])
def test_norm_clipping_and_update_are_a_few_operations_for_any_number_of_tensors(layers):
    replica = replica_of(lambda: nn.Sequential(*[nn.Linear(8, 8) for _ in range(layers)]))
    step = step_on(replica, lambda m, b: m(b[0]).pow(2).mean(-1), clip_norm=0.5)
    step(batches(1)[0], seed=0)
    with Calls() as calls:
        step.gradients(batches(1)[0], seed=0)
    forward_and_backward = len(calls.names)
    with Calls() as calls:
        step(batches(1)[0], seed=0)
    assert len(calls.names) - forward_and_backward <= 20
    assert "_fused_adamw_" in calls.names
    assert "_foreach_norm" in calls.names
