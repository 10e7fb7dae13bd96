"""Parameters that a module freezes are named, and others must get gradients beside them."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gradient_check import check_gradients
from gradient_check.exam.known.hosts import rows, squares
from gradient_check.tests.present import present


class Recomputed(nn.Module):
    """A frozen first layer, and a layer that is recomputed in backward."""

    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6).requires_grad_(False)
        self.second = nn.Linear(6, 6)
        self.head = nn.Linear(6, 2)
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        hidden = checkpoint(self.second, hidden, use_reentrant=self.reentrant)
        return self.head(hidden)


def test_a_module_that_is_frozen_as_a_whole_is_a_warning() -> None:
    module = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 2)).requires_grad_(False)
    report = check_gradients(module, rows(3, 6), squares)
    assert report.passed
    (finding,) = report.findings
    assert (finding.level, finding.code) == ("WARN", "frozen")
    assert finding.message.startswith("4 parameters of 4 frozen in your module, and tested thawed")


def test_a_selection_says_by_itself_what_is_trained() -> None:
    module = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 2)).requires_grad_(False)
    assert check_gradients(module, rows(3, 6), squares, trainable=".*").findings == ()


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_what_is_cut_off_by_frozen_inputs_fails_with_its_line() -> None:
    report = check_gradients(Recomputed(reentrant=True), rows(3, 6), squares)
    cut = next(finding for finding in report.findings if finding.level == "FAIL")
    assert cut.code == "graph-cut"
    assert cut.parameters == ("second.weight", "second.bias")
    assert "checkpoint(self.second" in present(cut.line)
    report = check_gradients(Recomputed(reentrant=False), rows(3, 6), squares)
    assert [(finding.level, finding.code) for finding in report.findings] == [("NOTE", "frozen")]
