"""Experts that a small probe does not hit are no unused parameters; forgotten ones still are."""

import pytest
import torch
from torch import nn

from gradient_check import check_gradients
from gradient_check.exam.known.hosts import squares
from gradient_check.instruments.larger_probes import variant


class Experts(nn.Module):
    def __init__(self, count=8):
        super().__init__()
        self.gate = nn.Linear(8, count)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(count))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        weight, chosen = self.gate(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for number in range(len(self.experts)):
            rows = chosen == number
            if rows.any():
                out[rows] = weight[rows, None] * self.experts[number](x[rows])
        return self.head(x + out)


@pytest.mark.parametrize(("count", "rows"), [(8, 3), (32, 2)])
def test_experts_that_few_rows_miss_are_unreached_and_not_unused(count, rows):
    for seed in range(4):
        torch.manual_seed(seed)
        report = check_gradients(Experts(count), torch.randn(rows, 8), squares)
        assert report.passed, report
        assert "unreached" in report.codes


def test_a_loss_that_knows_its_rows_is_asked_about_as_many_other_ones():
    torch.manual_seed(0)
    target = torch.randn(3, 4)
    report = check_gradients(Experts(), torch.randn(3, 8), lambda o: (o - target).square().mean(1))
    assert report.passed, report


class Forgotten(Experts):
    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(8, 8)


def test_what_no_row_can_reach_is_still_unused():
    torch.manual_seed(0)
    report = check_gradients(Forgotten(), torch.randn(3, 8), squares)
    (finding,) = (f for f in report.findings if f.level == "FAIL")
    assert (finding.code, finding.parameters) == ("unused", ("spare.weight", "spare.bias"))


def test_a_larger_probe_has_more_rows_of_the_probes_own_range():
    probe = {"ids": torch.tensor([[2, 5], [3, 9]]), "x": torch.tensor([[0.0, 1.0], [0.5, 0.2]])}
    probe["mask"] = torch.ones(2, 2)
    larger = variant(probe, 1, times=40)
    assert [len(tensor) for tensor in larger.values()] == [80, 80, 80]
    assert set(larger["ids"].unique().tolist()) == set(range(2, 10))
    assert (float(larger["x"].min()), float(larger["x"].max())) == (0.0, 1.0)
    assert bool((larger["mask"] == 1).all())
    again = variant(probe, 1, times=40)
    assert all(torch.equal(larger[name], again[name]) for name in probe)
