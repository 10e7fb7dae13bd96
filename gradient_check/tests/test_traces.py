"""What stays behind is told: a graph in memory, a base or a caller changed, a flag left."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

from gradient_check import check_gradients
from gradient_check.checks.base_changes import judge_base
from gradient_check.checks.inference import judge_inference
from gradient_check.checks.operation import Operation
from gradient_check.checks.release import judge_release
from gradient_check.exam.known.hosts import rows, squares
from gradient_check.instruments.graph import leaf_of, nodes
from gradient_check.tests.flows import flow_of, found, only, operation_of, tower
from gradient_check.tests.present import present


def served(module: Any, **rest) -> Operation:
    operation = operation_of(flow_of(module, **rest))
    judge_inference(operation)
    operation.flow.exam.findings.clear()
    return operation


def test_a_sound_forward_leaves_nothing() -> None:
    operation = served(tower())
    assert judge_release(operation.flow) == {"kept nodes": 0}
    assert judge_base(operation) == {}
    assert found(operation.flow) == []
    assert operation.flow.subject.loss.observer is None


def keeping(self: Any, h: Tensor) -> Tensor:
    self.hidden = h * 1.0
    return self.hidden


def test_a_graph_that_stays_is_a_warning_with_its_keeper() -> None:
    operation = served(tower(keeping))
    assert judge_release(operation.flow)["kept nodes"] > 0
    finding = only(operation.flow)
    assert (finding.code, finding.level) == ("leak", "WARN")
    assert finding.module == "blocks.1.hidden"
    assert "kept by blocks.1.hidden" in finding.message


def test_a_graph_in_a_cycle_is_released_by_the_collector() -> None:
    def cycle(self: Any, h: Tensor) -> Tensor:
        ring: list[object] = [h]
        ring.append(ring)
        return h

    operation = served(tower(cycle))
    assert judge_release(operation.flow) == {"kept nodes": 0}


def test_a_graph_that_the_next_forward_takes_is_stale() -> None:
    def banked(self: Any, h: Tensor) -> Tensor:
        self.bank = [*getattr(self, "bank", [])[-1:], h * 1.0]
        return sum(self.bank)

    operation = served(tower(banked))
    judge_release(operation.flow)
    finding = only(operation.flow)
    assert (finding.code, finding.level) == ("stale-forward", "FAIL")
    assert "h * 1.0" in present(finding.line)


def test_a_base_that_answers_otherwise_has_changed() -> None:
    operation = served(tower())
    operation.served = present(operation.served) + 1
    judge_base(operation)
    finding = only(operation.flow)
    assert (finding.code, finding.level) == ("base-changed", "FAIL")
    assert "answers differently after training a replica" in finding.message


def test_answers_are_not_compared_where_inference_did_not_repeat() -> None:
    operation = served(tower())
    operation.served = present(operation.served) + 1
    operation.flow.exam.grounds.clear()
    judge_base(operation)
    assert found(operation.flow) == []


def writing(self: Any, h: Tensor) -> Tensor:
    self.linear.weight.data.mul_(1.0001)
    return h


class Rescaling(nn.Module):
    """Its embedding rescales its own weight in every forward."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 4, max_norm=0.5)

    def forward(self, ids: Tensor) -> Tensor:
        output: Tensor = self.words(ids).sum(1)
        return output


class Momentum(nn.Module):
    """Its second encoder follows the first in training forwards, as MoCo's does."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.follower = (
            nn.Linear(4, 3),
            nn.Linear(4, 3).requires_grad_(requires_grad=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            if self.training:
                for mine, theirs in zip(
                    self.follower.parameters(), self.own.parameters(), strict=True
                ):
                    mine.mul_(0.9).add_(theirs, alpha=0.1)
            target = self.follower(x)
        output: Tensor = self.own(x) - target
        return output


def test_an_embedding_that_rescales_itself_is_named_with_its_remedy() -> None:
    ids = torch.randint(0, 9, (5, 3))
    report = check_gradients(Rescaling(), ids, squares)
    (finding,) = [f for f in report.findings if f.level == "FAIL"]
    assert (finding.code, finding.module) == ("base-changed", "words (Embedding)")
    assert "remove it" in finding.message


def test_an_embedding_whose_limit_is_never_met_is_not_blamed() -> None:
    class Counting(Rescaling):
        def __init__(self) -> None:
            super().__init__()
            self.words.max_norm = 1e6
            self.register_buffer("count", torch.zeros(1))

        def forward(self, ids: Tensor) -> Tensor:
            self.get_buffer("count").numpy()[0] += 1
            return super().forward(ids)

    report = check_gradients(Counting(), torch.randint(0, 9, (5, 3)), squares)
    (finding,) = [f for f in report.findings if "forwards changed" in f.message]
    assert "count" in finding.message
    assert (finding.module, "max_norm" in finding.message) == (None, False)


def test_what_follows_in_the_forward_needs_a_copy_of_its_own() -> None:
    probe = torch.randn(6, 4)
    report = check_gradients(Momentum(), probe, squares, trainable="own")
    (text,) = [f.message for f in report.findings if "forwards changed" in f.message]
    assert "`trainable` with `unused`" in text
    report = check_gradients(Momentum(), probe, squares, unused=["follower.*"])
    assert report.passed, str(report)


def test_a_forward_that_writes_to_its_weights_is_placed() -> None:
    operation = served(tower(writing))
    operation.flow.subject.serve(operation.flow.subject.base)
    judge_base(operation)
    finding = operation.flow.exam.findings[-1]
    assert finding.code == "base-changed"
    assert "forwards changed the base: tensor blocks.1.linear.weight" in finding.message
    assert "(version)" not in finding.message
    assert finding.module == "blocks.1 (Spoilt)"
    assert "self.linear.weight.data.mul_(1.0001)" in present(finding.line)


def test_a_callers_module_that_was_changed_is_told() -> None:
    module = tower()
    operation = served(module)
    module.head.weight.data.mul_(2)
    judge_base(operation)
    assert "head.weight was written to" in only(operation.flow).message


def test_a_flag_that_was_left_is_told_once_as_a_flag() -> None:
    operation = served(tower())
    torch.set_default_dtype(torch.float64)
    try:
        judge_base(operation)
    finally:
        torch.set_default_dtype(torch.float32)
    finding = only(operation.flow)
    assert (finding.code, finding.level) == ("flags-changed", "FAIL")
    assert "default dtype was torch.float32 and is torch.float64" in finding.message


@pytest.mark.parametrize("loss", [squares, lambda output: squares(output).mean()])
def test_of_a_graph_that_stays_the_inner_nodes_are_counted(loss) -> None:
    flow = served(tower(keeping), loss=loss).flow
    kept = judge_release(flow)["kept nodes"]
    replica: Any = flow.subject.replica
    graph = list(nodes(replica.blocks[1].hidden.grad_fn))
    assert kept == len([node for node in graph if leaf_of(node) is None]) < len(graph)


def old_spectral() -> Any:
    return nn.Sequential(nn.utils.spectral_norm(nn.Linear(6, 2)))


def pruned() -> Any:
    module = nn.Sequential(nn.Linear(6, 2))
    prune.l1_unstructured(module[0], "weight", amount=0.5)
    return module


def orthogonal() -> Any:
    cell: Any = nn.RNN(6, 2)
    return parametrizations.orthogonal(cell, "weight_hh_l0")


@pytest.mark.parametrize("make", [old_spectral, pruned, orthogonal])
def test_what_pytorch_keeps_until_the_next_forward_is_no_leak(make) -> None:
    report = check_gradients(
        make(), rows(3, 6), lambda out: (out[0] if isinstance(out, tuple) else out).square().mean()
    )
    assert set(report.codes) <= {"stop-gradient", "unverified"}
    assert report.passed
