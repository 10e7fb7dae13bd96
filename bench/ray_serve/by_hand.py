"""What one writes with transformers and peft: a base, copies of it that learn, and their answers.

The parts are those of peft's documentation: `get_peft_model` on a copy, a loop of AdamW,
`save_pretrained` and `from_pretrained`. The most recent models stay in memory. The model itself,
its tokens and its head are the template's (`encoder.py`, `task.py`), so that both sides compute
the same.
"""

import copy
import json
import shutil
import threading
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from pydantic import BaseModel
from torch import nn

from encoder import SentenceClassifier
from task import TextClassification

RANK, KEPT = 8, 16


class Row(BaseModel):
    """A labelled text."""

    text: str
    label: str


class Lesson(BaseModel):
    """Examples to learn, and texts to answer afterwards."""

    examples: list[Row]
    texts: list[str] = []
    steps: int = 10
    learning_rate: float = 1.8e-3
    seed: int = 0


class Question(BaseModel):
    """Texts for an adapter, or for the base with these label names."""

    texts: list[str]
    adapter: str = ""
    labels: tuple[str, ...] = ()


class _Model(NamedTuple):
    module: Any
    labels: tuple[str, ...]


class Classifier:
    """The base, and the models that were made from it.

    Args:
        folder: where the adapters' files go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._task = TextClassification()
        self._base: Any = self._task.load().eval()
        self._models: OrderedDict[object, _Model] = OrderedDict()
        self._lock = threading.Lock()

    def adapt(self, lesson: Lesson) -> dict[str, Any]:
        """Train a copy of the base, store its adapter, and answer with it."""
        labels = tuple(dict.fromkeys(row.label for row in lesson.examples))
        torch.manual_seed(lesson.seed)
        config = LoraConfig(
            r=RANK,
            lora_alpha=2 * RANK,
            target_modules=["query", "value"],
            modules_to_save=["head"],
        )
        module = get_peft_model(self._with_head(copy.deepcopy(self._base), labels), config)
        losses = self._train(module, labels, lesson)
        name = uuid.uuid4().hex
        module.save_pretrained(str(self._folder / name))
        (self._folder / name / "labels.json").write_text(json.dumps(labels))
        model = self._keep(name, _Model(module, labels))
        return {"adapter": name, "losses": losses, "scores": self._scores(model, lesson.texts)}

    def answers(self, questions: Sequence[Question]) -> list[list[dict[str, float]]]:
        """Return the scores of each question's texts; those for one model share a forward.

        Raises:
            FileNotFoundError: there is no such adapter.
        """
        found: dict[int, list[dict[str, float]]] = {}
        by_model: dict[object, list[int]] = defaultdict(list)
        for place, question in enumerate(questions):
            by_model[question.adapter or question.labels].append(place)
        for places in by_model.values():
            model = self._model(questions[places[0]])
            texts = [text for place in places for text in questions[place].texts]
            scores = iter(self._scores(model, texts))
            for place in places:
                found[place] = [next(scores) for _ in questions[place].texts]
        return [found[place] for place in range(len(questions))]

    def delete(self, adapter: str) -> None:
        """Remove an adapter from memory and disk."""
        with self._lock:
            self._models.pop(adapter, None)
        shutil.rmtree(self._folder / adapter, ignore_errors=True)

    def _train(self, module: nn.Module, labels: Sequence[str], lesson: Lesson) -> list[float]:
        parameters = [each for each in module.parameters() if each.requires_grad]
        optimizer = torch.optim.AdamW(
            parameters, lr=lesson.learning_rate, weight_decay=0.0, fused=True
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 - n / lesson.steps)
        batch = self._task.encode([row.text for row in lesson.examples])
        targets = torch.tensor([labels.index(row.label) for row in lesson.examples])
        losses = []
        module.eval()  # no dropout: with it, so few steps reach a loss that is 20 % higher
        for _ in range(lesson.steps):
            loss = self._task.loss(module, batch, targets).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        return losses

    def _model(self, question: Question) -> _Model:
        name = question.adapter or question.labels
        with self._lock:
            if name in self._models:
                self._models.move_to_end(name)
                return self._models[name]
        if not question.adapter:
            light = SentenceClassifier(self._base.encoder, self._base.head.in_features).eval()
            return self._keep(
                name, _Model(self._with_head(light, question.labels), question.labels)
            )
        folder = self._folder / question.adapter
        labels = tuple(json.loads((folder / "labels.json").read_text()))
        base = self._with_head(copy.deepcopy(self._base), labels)
        return self._keep(name, _Model(PeftModel.from_pretrained(base, folder).eval(), labels))

    def _keep(self, name: object, model: _Model) -> _Model:
        with self._lock:
            self._models[name] = model
            while len(self._models) > KEPT:
                self._models.popitem(last=False)
        return model

    def _with_head(self, module: Any, labels: Sequence[str]) -> Any:  # noqa: ANN401 - a module
        """Give a module a head that begins with the labels' names."""
        with torch.no_grad():
            start = self._task.start(self._base, labels, ())
        module.head = nn.Linear(module.head.in_features, len(labels))
        module.load_state_dict(start, strict=False)
        return module

    def _scores(self, model: _Model, texts: Sequence[str]) -> list[dict[str, float]]:
        if not texts:
            return []
        ask: Callable[..., list[Any]] = self._task.predict
        with torch.inference_mode():
            found = ask(model.module, self._task.encode(texts), model.labels, None)
        return [each["scores"] for each in found]
