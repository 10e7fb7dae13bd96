"""A missing gradient is told apart: cut off, given by nobody, used elsewhere, kept, or unused."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradient_check import check_gradients
from gradient_check.checks.missing_gradients import judge_missing_gradients
from gradient_check.exam.known.hosts import Block, Tower, rows
from gradient_check.tests.flows import found, measured, only, ran, tower
from gradient_check.tests.models import seeded_module
from gradient_check.tests.present import present
from gradient_check.tests.test_backward_trace import Silent


def judged(module: Any, *, leaked: bool = False, **rest):
    flow = measured(module, **rest)
    missing = [name for name in flow.subject.names if name not in flow.gradient_norms]
    judge_missing_gradients(flow, missing, leaked=leaked)
    return flow


def test_without_missing_gradients_nothing_is_said() -> None:
    assert found(judged(tower())) == []


def test_what_the_loss_depends_on_was_cut_off() -> None:
    finding = only(judged(tower(lambda self, h: h.detach())))
    assert (finding.code, finding.level, finding.module) == (
        "graph-cut",
        "FAIL",
        "blocks.1 (Spoilt)",
    )
    assert "h.detach()" in present(finding.line)
    assert len(finding.parameters) == 6
    assert not any("head" in name for name in finding.parameters)


class Weighed(Block):
    """Computes with views of a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.eye(6) + 0.1)


class LoopedWithoutGradients(Weighed):
    @torch.no_grad()
    def spoil(self, h: Tensor) -> Tensor:
        for row in self.mix:
            h = 0.7 * h + 0.3 * torch.tanh(h @ self.mix.t() + row)
        return h


class TransposedWithoutGradients(Weighed):
    def spoil(self, h: Tensor) -> Tensor:
        with torch.no_grad():
            turned = self.mix.t()
        return h @ turned


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        (LoopedWithoutGradients, "@torch.no_grad()"),
        (TransposedWithoutGradients, "with torch.no_grad():"),
    ],
)
def test_a_view_of_a_parameter_taken_without_gradients_leads_to_the_line(kind, head) -> None:
    finding = only(judged(seeded_module(lambda: Tower(kind())), trainable=r"mix|head"))
    assert (finding.code, finding.parameters) == ("graph-cut", ("blocks.1.mix",))
    assert present(finding.line).endswith(head)


def test_what_is_in_the_graph_was_given_nothing() -> None:
    finding = only(judged(tower(lambda self, h: Silent.apply(h))))
    assert finding.code == "grad-none"
    assert "in the graph, but without" in finding.message
    assert "def backward(ctx" in present(finding.line)


def test_where_all_are_missing_the_graph_begins_elsewhere() -> None:
    def rebuilt(output: Tensor) -> Tensor:
        return torch.tensor(output.pow(2).mean().item(), requires_grad=True) * 1.0

    finding = only(judged(tower(), loss=rebuilt))
    assert finding.code == "no-gradient"
    assert ".item()" in present(finding.line)


def test_where_all_are_missing_and_there_is_no_graph_it_was_cut() -> None:
    finding = only(judged(tower(), loss=lambda output: output.detach().pow(2).mean(1)))
    assert finding.code == "graph-cut"
    assert len(finding.parameters) == 8


def test_a_cut_whose_values_the_loss_does_not_notice_is_a_cut_all_the_same() -> None:
    def compared(self: Any, h: Tensor) -> Tensor:
        return (h > 100).float() + 1

    finding = only(judged(tower(compared)))
    assert finding.code == "graph-cut"
    assert "h > 100" in present(finding.line)


def spare(**attributes: object) -> Any:
    module = tower()
    module.spare = nn.Linear(3, 3)
    for name, value in attributes.items():
        setattr(module, name, value)
    return module


def test_what_nothing_uses_is_unused() -> None:
    finding = only(judged(spare()))
    assert (finding.code, finding.level, finding.module) == ("unused", "FAIL", "spare (Linear)")
    assert finding.parameters == ("spare.weight", "spare.bias")
    assert "is a copy of" not in finding.message


def test_a_copy_of_what_is_unused_is_named() -> None:
    module = spare()
    module.table = module.spare.weight.detach().clone()
    assert "table is a copy of spare.weight" in only(judged(module)).message


def closed_over() -> Any:
    original = seeded_module(lambda: nn.Linear(6, 6)).requires_grad_(False)
    module = Tower(type("Closed", (Block,), {"spoil": lambda self, h: original(h)})())
    module.own = original
    return module


def test_a_replica_that_computes_with_the_originals_weights_is_a_leak() -> None:
    finding = only(judged(closed_over()))
    assert (finding.code, finding.parameters) == ("leak-to-base", ("own.weight", "own.bias"))
    assert "original(h)" in present(finding.line)


def test_a_leak_that_has_been_reported_is_not_reported_as_unused_again() -> None:
    assert found(judged(closed_over(), leaked=True)) == []
    assert found(judged(spare(), leaked=True)) == []


def caching(self: Any, h: Tensor) -> Tensor:
    if not hasattr(self, "mixed"):
        self.mixed = torch.softmax(self.linear.weight, -1).detach()
    return h @ self.mixed


def test_a_value_kept_from_the_first_forward_is_stale() -> None:
    module = Tower(type("Caching", (Block,), {"forward": caching})())
    flow = ran(module, probe=rows(3, 6))
    flow.exam.findings.clear()
    flow.subject.gradients()
    flow.measure()
    missing = [name for name in flow.subject.names if name not in flow.gradient_norms]
    judge_missing_gradients(flow, ["blocks.1.linear.weight"], leaked=False)
    assert "blocks.1.linear.weight" in missing
    finding = only(flow)
    assert finding.code == "stale-forward"
    assert "torch.softmax(self.linear.weight" in present(finding.line)


def test_what_is_frozen_and_stopped_alike_is_a_warning() -> None:
    class Shifted(Block):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.ones(6) / 3, requires_grad=False)

        def spoil(self, h: Tensor) -> Tensor:
            return h * self.table.detach()

    module = seeded_module(lambda: Tower(Shifted()))
    finding = only(judged(module, thaws=True))
    assert (finding.code, finding.level) == ("frozen", "WARN")
    assert finding.parameters == ("blocks.1.table",)
    assert "self.table.detach()" in present(finding.line)
    assert only(judged(module)).code == "graph-cut"  # selected by name


def test_what_a_library_freezes_and_stops_is_a_note() -> None:
    sizes = {"d_model": 32, "vocab_size": 50, "encoder_layers": 1, "decoder_layers": 1}
    transformers = pytest.importorskip("transformers")
    config = transformers.MarianConfig(**sizes, pad_token_id=0, decoder_start_token_id=1)
    ids = torch.randint(3, 40, (2, 5), generator=torch.Generator().manual_seed(0))
    module = transformers.MarianMTModel(config)
    probe = {"input_ids": ids, "decoder_input_ids": ids}
    report = check_gradients(module, probe, lambda output: (output.logits**2).mean((1, 2)))
    assert {f.level for f in report.findings} == {"NOTE"}, report
    assert "frozen" in report.codes
    assert "embed_positions" in str(report)
