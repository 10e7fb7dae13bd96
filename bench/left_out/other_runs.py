"""What the runner itself makes of pictures and tables: steps of the own method, and `auto`."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.data import Split
from bench.frozen_features import FrozenFeatures
from bench.left_out.other_features import features_of, inputs_of
from bench.left_out.other_numbers import draw_numbers
from bench.left_out.other_tasks import task_of
from bench.quality_frozen import OWN, Contestant, Model
from bench.quality_subjects import Subject
from bench.sets import others
from bench.sets.rows import Row, drawn_from
from cog_adapt.runner.config import AUTO, RunnerSettings
from cog_adapt.runner.model_runner import ModelRunner

RUNS = (OWN, AUTO)


def draw(row: Row, seed: int) -> Split:
    """Draw a split of a set."""
    if others.SOURCES[row.set_name].kind == others.NUMBERS:
        return draw_numbers(row, seed)
    return drawn_from(others.load(row.set_name), row, seed)


@contextmanager
def runs_of(name: str) -> Iterator[Mapping[str, Contestant]]:
    """Give what a set's own runner answers: by steps of the task's method, and by `auto`."""
    subject = Subject(lambda: task_of(name), "head", draw, lambda: others.digest(name), {})
    with tempfile.TemporaryDirectory() as folder:  # no adapter of an earlier run must be reused
        settings = RunnerSettings.from_environment().model_copy(
            update={"weights_dir": Path(folder)}
        )
        with ModelRunner(subject.task(), settings) as runner:
            model = Model.of(subject, runner)
            kept = replace(model, features=_Kept(name, model))
            yield {OWN: kept.own, AUTO: kept.auto}


class _Kept(FrozenFeatures):
    """Features that are on disk: test pictures need no forward."""

    def __init__(self, name: str, model: Model) -> None:
        super().__init__(model.runner.task, model.module)
        every = inputs_of(name)
        self._rows = dict(zip(every, features_of(name), strict=True))

    def computed(self, inputs: Sequence[Any]) -> Tensor:
        """Look the features (N, D) of inputs up."""
        return torch.stack([self._rows[each] for each in inputs])
