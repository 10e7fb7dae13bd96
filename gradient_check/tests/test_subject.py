"""The subject runs the same forward and backward each time, and puts back what it moved."""

import copy
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gradient_check.exam.known.hosts import rows, squares
from gradient_check.phases.precision import Precision
from gradient_check.tests.flows import CPU, sgd, subject_of, tower
from gradient_check.tests.models import ConvNet, SpectralNet, TinyTransformer, seeded_module
from gradient_check.tests.present import present

X = rows(4, 8)


def values(subject) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in subject.parameters.items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def test_the_base_is_a_frozen_copy_and_the_replica_trains_what_is_named() -> None:
    module = tower().train()
    subject = subject_of(module, trainable="head")
    assert not any(p.requires_grad for p in subject.base.parameters())
    assert not any(part.training for part in subject.base.modules())
    assert list(subject.parameters) == ["head.weight", "head.bias"]
    assert all(p.requires_grad for p in subject.parameters.values())
    base: Any = subject.base
    replica: Any = subject.replica
    assert not replica.first.weight.requires_grad
    assert replica.head.weight.data_ptr() != base.head.weight.data_ptr()
    assert base.head.weight.data_ptr() != module.head.weight.data_ptr()


def test_the_callers_gradient_hooks_are_the_replicas_too() -> None:
    module = tower()
    module.head.weight.register_hook(lambda gradient: gradient * 0)
    subject = subject_of(module)
    subject.gradients()
    assert not present(subject.parameters["head.weight"].grad).any()
    assert present(subject.parameters["head.bias"].grad).any()


def test_a_forward_is_the_same_each_time_dropout_and_statistics_included() -> None:
    subject = subject_of(seeded_module(ConvNet), probe=X)
    subject.keep_buffers()
    assert subject.forward() == subject.forward()
    assert subject.gradients() == subject.forward()


def test_buffers_are_put_back_before_each_forward() -> None:
    subject = subject_of(seeded_module(SpectralNet), probe=X)
    before = {name: b.clone() for name, b in subject.replica.named_buffers()}
    subject.keep_buffers()
    subject.forward()
    assert not same(before, dict(subject.replica.named_buffers()))
    subject.put_back_buffers()
    assert same(before, dict(subject.replica.named_buffers()))


def test_frozen_parameters_are_thawed_before_each_forward() -> None:
    subject = subject_of(tower())
    subject.parameters["head.weight"].requires_grad_(False)
    subject.gradients()
    assert subject.parameters["head.weight"].grad is not None


def test_the_observer_sees_the_losses_with_their_graph_of_one_call() -> None:
    seen: list[Any]
    subject, seen = subject_of(tower()), []
    loss = subject.gradients(seen.append)
    assert len(seen) == 1
    assert seen[0].requires_grad
    assert seen[0].mean().item() == pytest.approx(loss)
    assert subject.loss.observer is None


def test_the_observer_is_let_go_of_after_an_error() -> None:
    subject = subject_of(tower(), loss=lambda output: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        subject.gradients(print)
    assert subject.loss.observer is None


def test_python_and_numpy_draw_the_same_numbers_in_each_forward() -> None:
    def noisy(self: Any, h: Tensor) -> Tensor:
        return h * random.random() + float(np.random.rand())

    subject = subject_of(tower(noisy))
    assert torch.equal(subject.evaluate(), subject.evaluate())
    assert subject.forward() == subject.forward() == subject.gradients()


def test_a_forward_begins_with_the_kept_buffers() -> None:
    subject = subject_of(seeded_module(SpectralNet), probe=X)
    subject.keep_buffers()
    first = subject.forward()
    assert [subject.forward(), subject.gradients()] == [first, first]


def test_a_float16_scale_that_overflows_is_lowered_until_gradients_are_finite() -> None:
    subject = subject_of(
        tower(),
        loss=lambda output: squares(output) * 100,
        precision=Precision(CPU, torch.float16),
    )
    first = subject.step.scaler.get_scale()
    subject.gradients()
    assert subject.step.scaler.get_scale() < first
    assert all(bool(present(p.grad).isfinite().all()) for p in subject.parameters.values())


def test_in_float32_one_backward_is_enough() -> None:
    calls: Any = []
    subject = subject_of(tower(), loss=lambda output: (calls.append(1), squares(output))[1])
    subject.gradients()
    assert len(calls) == 1


def test_a_perturbation_moves_each_parameter_by_its_fraction_and_is_always_the_same() -> None:
    one, other = subject_of(tower()), subject_of(tower())
    before = values(one)
    one.perturb(one.names)
    other.perturb(other.names)
    assert same(values(one), values(other))
    for name, tensor in values(one).items():
        moved = (tensor - before[name]).std() / before[name].std()
        assert 0.005 < moved < 0.05, name
    other.perturb(other.names, salt=1)
    one.perturb(one.names)
    assert not same(values(one), values(other))


def test_a_move_is_undone_also_after_an_error() -> None:
    subject = subject_of(tower())
    before = values(subject)

    def fail_while_moved() -> None:
        with subject.moved(["head.bias"], 0.5):
            assert not torch.equal(subject.parameters["head.bias"], before["head.bias"])
            assert torch.equal(subject.parameters["head.weight"], before["head.weight"])
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail_while_moved()
    assert same(values(subject), before)


def test_elsewhere_there_are_other_values_with_their_own_gradients() -> None:
    subject = subject_of(tower())
    loss = subject.gradients()
    before, gradients = values(subject), {n: p.grad for n, p in subject.parameters.items()}
    with subject.elsewhere(1) as other:
        assert other != loss
        assert other == subject.forward()
        assert not any(torch.equal(p, before[n]) for n, p in subject.parameters.items())
        assert not any(
            torch.equal(present(p.grad), present(gradients[n]))
            for n, p in subject.parameters.items()
        )
        first = values(subject)
    assert same(values(subject), before)
    assert all(p.grad is gradients[n] for n, p in subject.parameters.items())
    with subject.elsewhere(2):
        assert not same(values(subject), first)


def test_serving_is_in_eval_and_seeded_only_if_asked() -> None:
    subject = subject_of(seeded_module(ConvNet).train(), probe=X)
    plain = copy.deepcopy(subject.base).eval()
    served = subject.serve(subject.base, 3)
    assert served.dtype is torch.float64
    assert torch.equal(served, squares(plain(X)).double())
    noisy = subject_of(tower(lambda self, h: h + torch.randn(6)))
    assert torch.equal(noisy.serve(noisy.base, 3), noisy.serve(noisy.base, 3))
    assert not torch.equal(noisy.serve(noisy.base), noisy.serve(noisy.base))


def test_the_serve_mode_is_the_callers_unless_another_is_given() -> None:
    modes: Any = []
    subject = subject_of(
        tower(), loss=lambda output: (modes.append(output.is_inference()), squares(output))[1]
    )
    subject.serve(subject.base)
    subject.serve(subject.base, None, "no_grad")
    assert modes == [True, False]


def test_an_adapter_is_served_with_the_replicas_values_and_changed_buffers() -> None:
    subject = subject_of(seeded_module(SpectralNet), probe=X)
    subject.perturb(subject.names)
    subject.keep_buffers()
    subject.forward()
    served = subject.serve_adapted()
    evaluated = subject.evaluate()
    assert torch.allclose(served, evaluated)
    assert not torch.allclose(served, subject.serve(subject.base, 0))


def test_evaluation_is_in_eval_with_gradients_on() -> None:
    seen = []
    subject = subject_of(seeded_module(ConvNet).train(), probe=X)
    subject.replica.get_submodule("drop").register_forward_hook(
        lambda part, args, output: seen.append((part.training, torch.is_grad_enabled()))
    )
    subject.evaluate()
    subject.forward()
    assert seen == [(False, True), (True, True)]


def test_blocks_are_recomputed_if_asked_for() -> None:
    module = seeded_module(TinyTransformer)
    loss = lambda output: output[0].pow(2).mean(1)  # noqa: E731
    ids = torch.ones(2, 6, dtype=torch.int64)
    plain = subject_of(module, loss=loss, probe=ids)
    recomputed = subject_of(module, loss=loss, probe=ids, checkpointing=True)
    assert type(plain.replica.get_submodule("blocks.0")).__name__ == "Block"
    assert type(recomputed.replica.get_submodule("blocks.0")).__name__ == "RecomputedBlock"
    assert recomputed.gradients() == plain.gradients()


def test_the_step_takes_the_optimizer_that_was_given() -> None:
    subject = subject_of(tower(), make_optimizer=sgd(0.5), trainable="head")
    before, probe = values(subject), subject.probe
    subject.step(probe, subject.seed)
    for name, parameter in subject.parameters.items():
        assert torch.allclose(parameter, before[name] - 0.5 * present(parameter.grad))
    assert isinstance(subject.step.optimizer, torch.optim.SGD)
    assert isinstance(subject.replica, nn.Module)
