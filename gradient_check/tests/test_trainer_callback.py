"""The Trainer's callback, with Transformers itself."""

import subprocess
import sys

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from gradient_check.hooks.first_step import GradientFlowWarning
from gradient_check.hooks.trainer_callback import GradientFlowCheck
from gradient_check.phases.errors import GradientFlowError

SMALL = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
    "num_labels": 3,
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*pin_memory"),
    pytest.mark.filterwarnings("ignore:.*lr_scheduler.step"),
]


class Cutting(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **_):
        labels = inputs.pop("labels")
        states = model.bert(**inputs).last_hidden_state[:, 0].detach()
        return cross_entropy(model.classifier(states), labels)


class Watching(Trainer):
    """Keeps what `compute_loss` is given."""

    def compute_loss(self, model, inputs, return_outputs=False, **given):
        self.__dict__.setdefault("calls", []).append((model is self.model, dict(inputs)))
        return super().compute_loss(model, inputs, return_outputs, **given)


def bert():
    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(**SMALL))


def examples():
    generator = torch.Generator().manual_seed(1)
    rows = torch.randint(30, (12, 6), generator=generator)
    return [{"input_ids": row, "labels": number % 3} for number, row in enumerate(rows)]


def make(folder, kind=Trainer, **settings):
    arguments = TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
        per_device_train_batch_size=2,
        num_train_epochs=1,
        seed=3,
        **settings,
    )
    return kind(bert(), arguments, train_dataset=examples(), eval_dataset=examples())


def train(trainer, *, check=True, **options):
    """Train; return the check, or None, and the weights."""
    callback = GradientFlowCheck(trainer, **options) if check else None
    if callback is not None:
        trainer.add_callback(callback)
    trainer.train()
    return callback, trainer.model.state_dict()


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"bf16": True},
        {"gradient_accumulation_steps": 2},
        {"label_smoothing_factor": 0.1},
        {"activation_checkpointing": True},
        {"eval_on_start": True},
    ],
    ids=lambda settings: next(iter(settings), "plain"),
)
def test_training_goes_on_bit_for_bit_as_without_the_check(tmp_path, settings):
    _, without = train(make(tmp_path, **settings), check=False)
    trainer = make(tmp_path, **settings)
    check, weights = train(trainer)
    assert equal(weights, without)
    assert check.report.passed
    assert check.report.precision == ("cpu/bf16" if "bf16" in settings else "cpu/fp32")
    assert "compute_loss" not in vars(trainer)


def test_it_sees_the_first_batch_of_training_before_any_step_and_no_other(tmp_path):
    trainer = make(tmp_path, Watching, eval_on_start=True)
    train(trainer)
    kinds = [real for real, _ in trainer.calls]
    first = kinds.index(False)  # evaluation comes before
    last = len(kinds) - kinds[::-1].index(False)
    assert first == 2
    assert not any(kinds[first:last])
    assert len(kinds[last:]) == 6
    expected = trainer.calls[last][1]
    for _, inputs in trainer.calls[first:last]:
        assert torch.equal(inputs["input_ids"], expected["input_ids"])


def test_a_cut_is_raised_before_the_first_step_with_the_line(tmp_path):
    trainer = make(tmp_path, Cutting)
    with pytest.raises(GradientFlowError, match=r"(?s)graph-cut.*last_hidden_state\[:, 0\]\.det"):
        train(trainer)
    assert equal(trainer.model.state_dict(), bert().state_dict())
    assert "compute_loss" not in vars(trainer)


def test_a_cut_is_a_warning_where_one_is_asked_for(tmp_path):
    with pytest.warns(GradientFlowWarning, match="graph-cut"):
        check, _ = train(make(tmp_path, Cutting), on_failure="warn")
    assert not check.report.passed


def test_options_reach_the_check(tmp_path):
    check, _ = train(make(tmp_path), trainable="classifier")
    assert set(check.report.gradient_norms) == {"classifier.weight", "classifier.bias"}


def test_a_loss_of_the_trainers_own_stays_in_its_place(tmp_path):
    trainer = make(tmp_path)
    own = trainer.compute_loss
    trainer.compute_loss = own
    check, _ = train(trainer)
    assert check.report.passed
    assert vars(trainer)["compute_loss"] == own


def test_without_transformers_a_sentence_says_what_to_install():
    code = (
        "import sys; sys.modules['transformers'] = None; "
        "import gradient_check.hooks.trainer_callback"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        "ImportError: gradient_check.hooks.trainer_callback needs Transformers: "
        "`pip install transformers accelerate`."
    )
