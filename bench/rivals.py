"""The two usual ways to fine-tune a few-shot classifier, written as a good practitioner would.

Each copies a loaded base, which must not change because a server has other requests to answer.
Both use the runner's batches, encoding and hyperparameters, and otherwise follow the idioms of
their libraries: `model.train()`, peft's initialisation of LoRA's A, the fused AdamW, a rate that
falls linearly to zero, clipping by norm.
"""

import copy
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PrinterCallback, Trainer, TrainingArguments

from cog_adapt.runner.adaptation.batches import batch_indices
from cog_adapt.runner.config import Recipe
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.task.task import on_device
from gradient_check.phases.precision import Precision
from task import TextClassification

Answer = Callable[[Sequence[str]], list[str]]
"""An adapted model, which maps texts to labels."""

_ALPHA_PER_RANK = 2
_PREDICT_BATCH = 32
# Trainer needs a folder, although nothing is saved.
_SCRATCH = Path(tempfile.gettempdir()) / "cog-adapt-trainer"


@dataclass(frozen=True)
class Base:
    """The model on its device, as a server holds it when a request arrives."""

    task: TextClassification
    module: nn.Module
    precision: Precision

    @classmethod
    def load(cls, task: TextClassification, precision: Precision) -> "Base":
        """Load the same weights as the runner."""
        module: Any = task.load().to(precision.device).eval()
        module.length_groups = 1  # a batch is padded to its longest text, as is usual
        return cls(task, module, precision)

    def with_lora(self, labels: Sequence[str], recipe: Recipe) -> Any:  # noqa: ANN401 - a PeftModel
        """Copy the base, with LoRA pairs and a head that starts from the labels' names."""
        module: Any = copy.deepcopy(self.module)
        with torch.no_grad():
            start = self.task.start(module, labels, ())
        module.head = nn.Linear(module.head.in_features, len(labels), device=self.precision.device)
        module.load_state_dict(start, strict=False)
        rank = recipe.rank or self.task.rank
        config = LoraConfig(
            r=rank,
            lora_alpha=_ALPHA_PER_RANK * rank,
            target_modules=["query", "value"],
            modules_to_save=["head"],
        )
        return get_peft_model(module, config)

    def logits(self, model: nn.Module, texts: Sequence[str]) -> Tensor:
        """Compute one batch, padded to its longest text, in the runner's precision."""
        precision = self.precision
        batch = on_device(self.task.encode(texts), precision.device)
        with torch.autocast(
            precision.device.type, dtype=precision.compute, enabled=precision.autocasts
        ):
            return cast(Tensor, model(batch))


def batches(examples: Sequence[Example], recipe: Recipe) -> list[list[Example]]:
    """Return the runner's own batches, so that all learn from the same texts in the same order."""
    count = len(examples)
    size = min(recipe.batch_size, count)
    rows = (batch_indices(count, size, step, recipe.seed) for step in range(recipe.max_steps))
    return [[examples[index] for index in row] for row in rows]


def labels_of(examples: Sequence[Example]) -> list[str]:
    """Return the labels in order of first appearance, as the runner does."""
    return list(dict.fromkeys(example.target for example in examples))


def plain_loop(base: Base, examples: Sequence[Example], recipe: Recipe, rate: float) -> Answer:
    """Adapt with a plain PyTorch loop and peft."""
    model = plain_model(base, examples, recipe, rate)
    labels = labels_of(examples)

    def answer(texts: Sequence[str]) -> list[str]:
        return [labels[row] for row in all_logits(base, model, texts).argmax(-1).tolist()]

    return answer


def plain_model(base: Base, examples: Sequence[Example], recipe: Recipe, rate: float) -> nn.Module:
    """Return the model that a plain PyTorch loop with peft has trained."""
    steps = plain_steps(base, examples, recipe, rate)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(nn.Module, end.value)


def plain_steps(
    base: Base, examples: Sequence[Example], recipe: Recipe, rate: float
) -> Generator[None, None, nn.Module]:
    """Train with a plain PyTorch loop and peft; yield after each step, and return the model."""
    torch.manual_seed(recipe.seed)
    labels = labels_of(examples)
    model = base.with_lora(labels, recipe)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=recipe.weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 1 - step / recipe.max_steps
    )
    model.train()
    for batch in batches(examples, recipe):
        targets = torch.tensor([labels.index(example.target) for example in batch])
        logits = base.logits(model, [example.input for example in batch])
        loss = F.cross_entropy(logits, targets.to(logits.device))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, recipe.clip_norm)
        optimizer.step()
        schedule.step()
        yield
    return cast(nn.Module, model.eval())


def all_logits(base: Base, model: nn.Module, texts: Sequence[str]) -> Tensor:
    """Compute the logits of any number of texts, a batch at a time, without gradients."""
    starts = range(0, len(texts), _PREDICT_BATCH)
    with torch.inference_mode():
        return torch.cat([base.logits(model, texts[at : at + _PREDICT_BATCH]) for at in starts])


class _WithLoss(nn.Module):
    """Has the signature that `Trainer` wants, without `**kwargs`, to which it would pass more."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return logits, and the loss if there are labels."""
        tokens = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            tokens["token_type_ids"] = token_type_ids
        logits = self.model(tokens)
        loss = {} if labels is None else {"loss": F.cross_entropy(logits, labels)}
        return loss | {"logits": logits}


def trainer(base: Base, examples: Sequence[Example], recipe: Recipe, rate: float) -> Answer:
    """Adapt with Hugging Face's `Trainer` and peft."""
    labels = labels_of(examples)

    def collate(rows: Sequence[Example]) -> dict[str, Tensor]:
        batch = base.task.encode([row.input for row in rows])
        if rows[0].target is None:
            return batch
        return batch | {"labels": torch.tensor([labels.index(row.target) for row in rows])}

    hugging = Trainer(
        model=_WithLoss(base.with_lora(labels, recipe)),
        args=_arguments(base.precision, recipe, rate),
        data_collator=collate,
        train_dataset=sum(batches(examples, recipe), []),
    )
    hugging.remove_callback(PrinterCallback)
    hugging.train()

    def answer(texts: Sequence[str]) -> list[str]:
        logits = hugging.predict([Example(text, None) for text in texts]).predictions
        return [labels[row] for row in logits.argmax(-1)]

    return answer


def _arguments(precision: Precision, recipe: Recipe, rate: float) -> Any:  # noqa: ANN401
    return TrainingArguments(
        output_dir=str(_SCRATCH),
        max_steps=recipe.max_steps,
        per_device_train_batch_size=recipe.batch_size,
        per_device_eval_batch_size=_PREDICT_BATCH,
        learning_rate=rate,
        lr_scheduler_type="linear",
        weight_decay=recipe.weight_decay,
        max_grad_norm=recipe.clip_norm,
        optim="adamw_torch_fused",
        seed=recipe.seed,
        bf16=precision.compute is torch.bfloat16,
        fp16=precision.compute is torch.float16,
        use_cpu=precision.device.type == "cpu",
        train_sampling_strategy="sequential",
        remove_unused_columns=False,
        dataloader_pin_memory=precision.device.type == "cuda",
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
