"""Checks that a task fulfils the protocol of `Task`; these checks take no gradient.

Each runs on a private copy of the model, with the task's own probe.
"""

import re
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cog_adapt.runner.adaptation.methods import lora_layers
from cog_adapt.runner.adaptation.start import widened
from cog_adapt.runner.config import ALL, LORA
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.data.plain_values import alike, not_plain
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.selftest.task_calls import SEED, TaskCalls
from cog_adapt.runner.task.decoding import encoded
from cog_adapt.runner.task.task import NO_NAME, Task, on_device, prepares
from gradient_check import GradientReport
from gradient_check.findings.examination import Numbers
from gradient_check.phases.census import Census
from gradient_check.phases.replicas import serving_replica

_SAME = 1e-2  # share of the largest loss: another batch size may add in another order
_PLAIN = "Return texts, numbers, booleans, None, and lists and dicts of these"


def check_promises(model: LoadedModel) -> GradientReport:
    """Check the probe, the encoding, the start, the losses, the predictions and the patterns."""
    began = time.perf_counter()
    promises = _Promises(model)
    exam = promises.exam
    exam.check("probe", promises.judge_probe)
    exam.check("patterns", promises.judge_patterns)
    exam.check("encode", promises.judge_encoding, needs=("probe",))
    exam.check("start", promises.judge_start, needs=("batch",))
    if prepares(model.task):
        exam.check("prepare", promises.judge_preparing, needs=("start",))
    exam.check("loss", promises.judge_losses, needs=("start",))
    exam.check("predict", promises.judge_predictions, needs=("start",))
    seconds = time.perf_counter() - began
    return GradientReport(
        findings=tuple(exam.findings),
        checks=tuple(exam.checks),
        gradient_norms={},
        precision=str(model.base.precision),
        seconds=seconds,
    )


class _Inputs(TaskCalls):
    """Checks of the model's inputs."""

    def judge_probe(self) -> Numbers:
        """Check that the probe is a set of examples."""
        found: Any = self.call("probe", self.task.probe)
        if self.exam.has("probe"):
            return {}
        if not isinstance(found, list | tuple) or not found:
            kind = type(found).__name__
            self.fail("probe", f"returned a {kind} of no examples. Return a list of two or more")
            return {}
        other = next((each for each in found if not isinstance(each, Example)), None)
        if other is not None:
            self.fail("probe", f"holds a {type(other).__name__}. Write Example(input, target)")
            return {}
        self.probe = list(found)
        self.exam.grounds.add("probe")
        return {"examples": len(found)}

    def judge_patterns(self) -> Numbers:
        """Check that `lora_targets` names a layer, unless none is meant."""
        template = self.model.base.template
        layers = lora_layers(template, self.task)
        task, kind = self.task, type(self.task).__name__
        means_none = task.lora_targets in (Task.lora_targets, NO_NAME)
        if not layers and (task.method == LORA or not means_none):
            self.exam.add(
                "FAIL" if task.method in (LORA, "") else "WARN",
                "lora-targets",
                f"{kind}.lora_targets {task.lora_targets!r} matches no linear layer of "
                f"{type(template).__name__} as a whole name. Write a regex of layers' names, or "
                "leave `lora_targets` and `method` out: every parameter is then trained.",
            )
        elif not layers and not task.method:
            self.exam.add(
                "NOTE",
                "default-method",
                f"{type(template).__name__} has no linear layer for LoRA: the default method is "
                f"{ALL!r}, which trains every parameter.",
            )
        return {"layers": len(layers)}

    def judge_encoding(self) -> Numbers:
        """Check that `encode` and `encode_targets` return one row for each example."""
        task, count = self.task, len(self.probe)
        batch: Any = self.call("encode", lambda: encoded(task, [e.input for e in self.probe]))
        labels: Any = self.call("labels", lambda: task.labels(self.probe))
        if self.exam.has("encode", "labels"):
            return {}
        is_batch = isinstance(batch, dict) and all(isinstance(t, Tensor) for t in batch.values())
        if not is_batch or not batch:
            kind = type(batch).__name__
            self.fail("encode", f"returned a {kind}. Return a dict of tensors by name")
            return {}
        wrong = {n: tuple(t.shape) for n, t in batch.items() if t.dim() == 0 or len(t) != count}
        if wrong:
            self.fail("encode", f"made of {count} inputs {wrong}. Keep a row for each input")
            return {}
        targets = [e.target for e in self.probe]
        made: Any = self.call("encode_targets", lambda: task.encode_targets(targets, labels))
        if self.exam.has("encode_targets"):
            return {}
        if not isinstance(made, Tensor) or made.dim() == 0 or len(made) != count:
            shape = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
            self.fail("encode_targets", f"made {shape} of {count} targets. Keep a row for each")
            return {}
        self.batch = on_device(batch, self.precision.device)
        self.targets = made.to(self.precision.device)
        self.labels = labels
        self.exam.grounds.add("batch")
        return {"rows": count}

    def judge_start(self) -> Numbers:
        """Check that `start` returns rows for all labels, under names that `head` matches."""
        task, labels = self.task, self.task.labels(self.probe)
        copy = self.copy()
        made: Any = self.call(
            "start", lambda: self.infer(lambda m: task.start(m, labels, self.probe), copy)
        )
        if self.exam.has("start"):
            return {}
        if not isinstance(made, dict) or not all(isinstance(t, Tensor) for t in made.values()):
            self.fail("start", f"returned a {type(made).__name__}. Return tensors by name")
            return {}
        rows = {n: tuple(t.shape) for n, t in made.items() if t.dim() == 0 or len(t) != len(labels)}
        if labels and rows:
            self.fail("start", f"made of {len(labels)} labels {rows}. Give a row for each label")
        other = [name for name in made if not re.fullmatch(task.head, name)]
        own = [name for name, _ in self.model.base.template.named_parameters()]
        means_none = task.head in (Task.head, NO_NAME)
        if other or (not means_none and not self._matches_head([*own, *made])):
            remedy = "" if made else "; leave `head` out if the model has none"
            self.exam.add(
                "FAIL",
                "head",
                f"{type(task).__name__}.head {task.head!r} does not match "
                f"{other[0] if other else 'any parameter'} as a whole name. Write a regex that "
                f"matches what `start` makes, or a parameter{remedy}.",
            )
        if not self.exam.has("start", "head"):
            self.tensors = made
            self.exam.grounds.add("start")
        return {"tensors": len(made)}

    def judge_preparing(self) -> Numbers:
        """Check that `prepare` returns a batch and targets with a row for each example."""
        assert self.targets is not None
        batch, targets, count = self.batch, self.targets, len(self.probe)
        module = serving_replica(self.model.base.template, {})
        made: Any = self.call(
            "prepare", lambda: self.infer(lambda m: self.task.prepare(m, batch, targets), module)
        )
        if self.exam.has("prepare"):
            return {}
        if not _is_pair(made):
            self.fail("prepare", f"returned a {type(made).__name__}. Return a batch and targets")
            return {}
        tensors = {**made[0], "targets": made[1]}
        wrong = {n: tuple(t.shape) for n, t in tensors.items() if t.dim() == 0 or len(t) != count}
        if wrong:
            self.fail("prepare", f"made of {count} examples {wrong}. Keep a row for each")
            return {}
        self.prepared = widened(made)
        return {"tensors": len(tensors)}

    def _matches_head(self, names: Sequence[str]) -> bool:
        return any(re.fullmatch(self.task.head, name) for name in names)


def _is_pair(made: object) -> bool:
    """Return whether a value is a batch and a tensor of targets."""
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[0], dict):
        return False
    return all(isinstance(each, Tensor) for each in (*made[0].values(), made[1]))


class _Promises(_Inputs):
    """Checks of the model's outputs, after those of its inputs."""

    def judge_losses(self) -> Numbers:
        """Check that each example has a loss that does not depend on the other examples."""
        module, count = self.copy(), len(self.probe)
        losses: Any = self.call("loss", lambda: self.losses(module))
        if self.exam.has("loss"):
            return {}
        if not isinstance(losses, Tensor) or tuple(losses.shape) != (count,):
            shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
            self.exam.add(
                "FAIL",
                "loss-shape",
                f"{type(self.task).__name__}.loss returned {shape} for {count} examples. Return "
                "one loss for each, shape (N,): reduce over everything but the examples.",
            )
            return {}
        alone = [self.losses(module, slice(i, i + 1)) for i in range(count)]
        apart = float((torch.cat([each.reshape(-1)[:1] for each in alone]) - losses).abs().max())
        depends = apart > _SAME * max(float(losses.abs().max()), 1e-6)
        if depends and self.task.rows_are_independent:
            self.exam.add(
                "WARN",
                "rows-depend",
                f"an example's loss differs by {apart:.2g} when it is computed alone: held-out "
                f"losses depend on the batch. {self._remedy_for_rows(module, losses)}, or, if that "
                "is intended, set `rows_are_independent = False`.",
            )
        return {"apart": apart}

    def _remedy_for_rows(self, module: nn.Module, losses: Tensor) -> str:
        """Return the remedy for dependent losses; for a loss with noise, the noise by row."""
        other = self.losses(module, seed=SEED + 1)
        if torch.allclose(losses, other, rtol=_SAME):
            return "Let no example see the others"
        return (
            "It draws noise, whose order follows the rows: draw it by row, from "
            "`cog_adapt.row_generators()`"
        )

    def judge_predictions(self) -> Numbers:
        """Check that `predict` gives a plain answer to each input, and changes nothing."""
        module, count = self.copy(), len(self.probe)
        census = Census.of(module)
        answers: Any = self.call("predict", lambda: self.predict(module, self.batch))
        if self.exam.has("predict"):
            return {}
        changes = [c for c in census.changes(module) if not c.startswith("process flag")]
        if changes:
            self.fail("predict", f"wrote to the model: {'; '.join(changes[:2])}. Write to nothing")
        if not isinstance(answers, list | tuple) or len(answers) != count:
            size = len(answers) if isinstance(answers, list | tuple) else type(answers).__name__
            self.fail("predict", f"gave {size} for {count} inputs. Return a list, an answer each")
            return {}
        strange = next(filter(None, map(not_plain, answers)), None)
        if strange:
            self.fail("predict", f"gave {strange}. {_PLAIN}")
            return {}
        turned = {name: tensor.flip(0) for name, tensor in self.batch.items()}
        again = self.predict(module, turned, SEED + 1)
        is_same = alike(answers, list(reversed(again)))
        if not is_same and alike(answers, self.predict(module, self.batch, SEED + 1)):
            what = "answers differently if the inputs come in another order"
            self.fail("predict", f"{what}. Answer each input by itself, in order")
        return {"answers": count}
