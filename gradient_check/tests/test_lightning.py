"""The Lightning callback, with Lightning itself."""

import subprocess
import sys
from typing import Any

import pytest
import pytorch_lightning
import torch
import torchmetrics
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from gradient_check.hooks.first_step import GradientFlowWarning
from gradient_check.hooks.lightning import GradientFlowCheck
from gradient_check.phases.errors import ConfigError, GradientFlowError

QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:GPU available but not used"),
    pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec"),
]


def classifier(base: Any) -> Any:
    class Classifier(base):
        """A healthy model, with what real ones have: dropout, a metric, logging, the trainer."""

        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.body = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Dropout(0.3))
            self.head = nn.Linear(8, 3)
            self.accuracy = torchmetrics.Accuracy("multiclass", num_classes=3)
            self.seen = []

        def training_step(self, batch, batch_idx):
            inputs, labels = batch
            logits = self.head(self.body(inputs))
            loss = cross_entropy(logits, labels)
            self.accuracy(logits, labels)
            self.log("accuracy", self.accuracy)
            rate = self.optimizers().param_groups[0]["lr"]
            self.log_dict({"loss": loss, "rate": rate}, on_epoch=True)
            assert self.trainer.global_step >= 0
            return {"loss": loss}

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=0.01)

    return Classifier


Classifier: Any = classifier(LightningModule)


class Cut(Classifier):
    def training_step(self, batch, batch_idx):
        inputs, labels = batch
        return cross_entropy(self.head(self.body(inputs).detach()), labels)


class ByHand(Classifier):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch):
        loss = self.loss(batch)
        self.optimizers().zero_grad()
        self.manual_backward(loss)
        self.optimizers().step()

    def loss(self, batch):
        inputs, labels = batch
        return cross_entropy(self.head(self.body(inputs)), labels)


def passed(check: Any) -> Any:
    return check.report.passed


def norms(check: Any) -> Any:
    return check.report.gradient_norms


def batches():
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(12, 5, generator=generator)
    return DataLoader(TensorDataset(inputs, torch.arange(12) % 3), batch_size=4, shuffle=True)


def fit(model, *callbacks, trainer=Trainer, **options):
    torch.manual_seed(2)
    settings = {**QUIET, "max_epochs": 2, **options}
    trainer(callbacks=list(callbacks), **settings).fit(model, batches())
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_training_goes_on_bit_for_bit_as_without_the_check(precision):
    check = GradientFlowCheck()
    without = fit(Classifier(), precision=precision)
    assert equal(fit(Classifier(), check, precision=precision), without)
    assert passed(check)
    report: Any = check.report
    assert report.precision == ("cpu/bf16" if "bf16" in precision else "cpu/fp32")


def test_it_sees_the_first_batch_before_any_step_and_no_other():
    probes: list[Any] = []
    steps: list[Any] = []

    class Watching(Classifier):
        def training_step(self, batch, batch_idx):
            steps.append((batch[0], len(probes), self.head.weight.grad))
            return super().training_step(batch, batch_idx)

    def loss(module, batch):
        probes.append(batch[0])
        return cross_entropy(module.head(module.body(batch[0])), batch[1])

    fit(Watching(), GradientFlowCheck(loss))
    assert len(steps) == 6
    assert {count for _, count, _ in steps} == {len(probes)}  # all before the first step
    assert all(torch.equal(inputs, steps[0][0]) for inputs in probes)
    assert steps[0][2] is None


def test_what_the_copies_log_is_dropped():
    logged: dict[str, list[Any]] = {}

    def keep(name):
        class Keeping(Classifier):
            def on_train_batch_end(self, *_):
                logged.setdefault(name, []).append(sorted(self.trainer._results))

            def on_train_epoch_end(self):
                logged[name].append(dict(self.trainer.callback_metrics))

        return Keeping()

    fit(keep("without"))
    fit(keep("with"), GradientFlowCheck())
    assert logged["with"] == logged["without"] != []


def test_a_cut_is_raised_before_the_first_step_with_the_line():
    model = Cut()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(
        GradientFlowError, match=r"graph-cut.*: body\.0\.weight.*: return cross_entropy"
    ):
        fit(model, GradientFlowCheck())
    assert equal(before, model.state_dict())


def test_a_cut_is_a_warning_where_one_is_asked_for():
    check = GradientFlowCheck(on_failure="warn")
    with pytest.warns(GradientFlowWarning, match="graph-cut"):
        fit(Cut(), check)
    assert not passed(check)


def test_a_frozen_part_is_left_out():
    model = Cut()
    model.body.requires_grad_(False)
    check = GradientFlowCheck()
    fit(model, check)
    assert set(norms(check)) == {"head.weight", "head.bias"}


def test_options_reach_the_check():
    check = GradientFlowCheck(trainable="head")
    fit(Cut(), check)
    assert set(norms(check)) == {"head.weight", "head.bias"}


def test_a_module_that_optimizes_by_hand_needs_a_loss():
    with pytest.raises(ConfigError, match="ByHand optimizes by hand.*`loss=`"):
        fit(ByHand(), GradientFlowCheck())
    check = GradientFlowCheck(lambda module, batch: module.loss(batch))
    fit(ByHand(), check)
    assert passed(check)


def test_a_training_step_without_an_index():
    class Short(Classifier):
        def training_step(self, batch):
            return super().training_step(batch, 0)

    check = GradientFlowCheck()
    fit(Short(), check)
    assert passed(check)


def test_it_works_with_the_package_of_the_old_name():
    check = GradientFlowCheck()
    model = classifier(pytorch_lightning.LightningModule)()
    fit(model, check, trainer=pytorch_lightning.Trainer)
    assert passed(check)


def test_without_lightning_a_sentence_says_what_to_install():
    code = "import sys; sys.modules['lightning'] = None; import gradient_check.hooks.lightning"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        "ImportError: gradient_check.hooks.lightning needs Lightning: `pip install lightning`."
    )
