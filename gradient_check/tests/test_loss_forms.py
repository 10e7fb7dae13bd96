"""`check_gradients(model, (x, y), loss_fn)`: PyTorch's own form of a loss, told from the others."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check import check_gradients
from gradient_check.exam.known.hosts import rows
from gradient_check.instruments.loss_forms import takes_module, takes_targets
from gradient_check.tests.present import present

LABELS = torch.tensor([0, 2, 1, 1])
PAIR = (rows(4, 6), LABELS)


class Net(nn.Sequential):
    """A healthy classifier of three labels."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


class Cut(Net):
    def forward(self, x: Any) -> Any:
        return self[2](torch.tanh(self[0](x).detach()))


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(6, 3), nn.Linear(2, 3)

    def forward(self, a: Any, b: Any) -> Any:
        return self.left(a) + self.right(b)


class Focal(nn.Module):
    """A loss of one's own, with a weight of its own."""

    def forward(self, logits: Any, labels: Any) -> Any:
        entropy = F.cross_entropy(logits, labels, reduction="none")
        return (1 - torch.exp(-entropy)) ** 2 * entropy


def own_loss(y_hat: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(y_hat, y)


def annotated(a: Tensor, b: Tensor) -> Tensor:
    return F.cross_entropy(a, b)


def stopping(logits: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(logits.detach() * 2.0, y) + 0.0 * logits.sum()


def annotated_in_text(a: "Tensor", b: "torch.Tensor") -> Any:
    return F.cross_entropy(a, b)


def noted(function: Any) -> Any:
    """Leave a function as it is."""
    return function


@noted
def decorated(output: Any, y: Any) -> Any:
    return output(y)


def handed_on(output: "nn.Module", y: Any) -> Any:
    return mean_of(output, y)


def mean_of(called: Any, batch: Any) -> Any:
    return called(batch).mean(1)


@pytest.mark.parametrize(
    "loss",
    [
        nn.CrossEntropyLoss(),
        nn.CrossEntropyLoss(reduction="none"),
        F.cross_entropy,
        Focal(),
        own_loss,
        annotated,
        annotated_in_text,
        lambda logits, y: F.cross_entropy(logits.float(), y),
        lambda a, target: F.cross_entropy(a, target),
    ],
)
def test_a_loss_of_output_and_targets_is_called_as_in_pytorch(loss: Any) -> None:
    report = check_gradients(Net(), PAIR, loss)
    assert report.passed, report
    assert set(report.gradient_norms) == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_what_a_data_loader_gives_is_a_pair() -> None:
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*PAIR), batch_size=4)
    report = check_gradients(Net(), next(iter(loader)), nn.CrossEntropyLoss())
    assert report.passed, report


@pytest.mark.parametrize(
    "inputs", [(rows(4, 6), rows(4, 2)), {"a": rows(4, 6), "b": rows(4, 2)}], ids=["tuple", "dict"]
)
def test_inputs_of_a_pair_may_be_positional_or_named(inputs: Any) -> None:
    report = check_gradients(TwoInputs(), (inputs, LABELS), nn.CrossEntropyLoss())
    assert report.passed, report


def test_the_gradient_is_that_of_the_same_loss_written_out() -> None:
    net = Net()
    written = check_gradients(net, PAIR, lambda module, b: F.cross_entropy(module(b[0]), b[1]))
    assert check_gradients(net, PAIR, F.cross_entropy).gradient_norms == written.gradient_norms


def test_the_line_of_a_fault_is_named_in_the_model_and_in_the_loss() -> None:
    (cut,) = check_gradients(Cut(), PAIR, nn.CrossEntropyLoss()).findings
    assert cut.code == "graph-cut"
    assert "self[0](x).detach()" in present(cut.line)
    report = check_gradients(Net(), PAIR, stopping)
    failed = [finding for finding in report.findings if finding.level == "FAIL"]
    assert any("logits.detach() * 2.0" in (finding.line or "") for finding in failed), report


@pytest.mark.parametrize(
    "loss",
    [
        lambda net, x: x,
        lambda model, y: y,
        lambda output, y: output(y),
        lambda y, x: sum(p.sum() for p in y.parameters()),
        lambda a, b: b,
        decorated,
        handed_on,
        lambda outer, rows: mean_of(outer, rows),  # "outer" only begins as "out" does
    ],
)
def test_today_s_form_of_module_and_probe_stays(loss: Any) -> None:
    assert takes_module(loss)
    assert not takes_targets(loss)
