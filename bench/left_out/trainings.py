"""What gradients give on a split, kept so that every rule of choosing can be judged without them.

A split is trained on as `auto` trains: on all examples, and on each fold. Kept are the heads that
steps began and ended with, and the features that the test texts and each fold's other half have at
the end and in the middle. From these follow the answers of each rule that chooses or averages. One
file a split lies in `.data/left-out/trainings`, so that a run that was cut off goes on.
"""

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.data import Split
from bench.left_out.cases import rows_of
from bench.left_out.features import FOLDER
from bench.sets import unseen
from bench.sets.labelled import LabelledSet
from bench.sets.rows import Row, drawn_from
from cog_adapt.runner.adaptation.run import adapt
from cog_adapt.runner.adaptation.start import Start
from cog_adapt.runner.auto.cross_answers import middle
from cog_adapt.runner.auto.head import features_of
from cog_adapt.runner.auto.start import Given, given_of
from cog_adapt.runner.config import Recipe
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model.loaded_model import LoadedModel
from gradient_check.phases.replicas import Tensors, serving_replica

TRAININGS = FOLDER / "trainings"
_MOST_WORDS = 32  # of a text: the time of a step goes by them
_MOST_TESTED = 200
_METHOD = "lora"
_FOLD_STEPS = 0.5  # as `auto` has it
_OVERHEAD = 8  # tokens of a step that do not go by a text's words
_STEPS = 40


@dataclass(frozen=True)
class Moved:
    """What steps did.

    Attributes:
        begin: the head's weight and bias that they began with.
        end: those that they ended with.
        middle_features: of the texts in question where each is half-way, (M, D).
        end_features: of the same texts at the end, (M, D).
        seconds: of this process's CPU time, for the steps alone.
    """

    begin: tuple[Tensor, Tensor]
    end: tuple[Tensor, Tensor]
    middle_features: Tensor
    end_features: Tensor
    seconds: float


@dataclass(frozen=True)
class Fold:
    """A half of the examples that was trained on, and what the other half is to it."""

    train: Tensor
    others: Tensor
    moved: Moved


@dataclass(frozen=True)
class Training:
    """One split with what gradients give on it.

    Attributes:
        row: of the set.
        seed: of the split and of the steps.
        digest: of the set.
        features: of the examples by the base, (N, D).
        targets: their class numbers, (N,).
        test: features of the test texts by the base, (M, D).
        wanted: their class numbers, (M,).
        names: the head's weight before any example, (K, D).
        whole: steps on all examples, and the test texts.
        folds: steps on each fold, and its other half; none where there are too few examples.
    """

    row: Row
    seed: int
    digest: str
    features: Tensor
    targets: Tensor
    test: Tensor
    wanted: Tensor
    names: Tensor
    whole: Moved
    folds: tuple[Fold, ...]


def path_of(row: Row, seed: int, method: str = "auto") -> Path:
    """Return where a split's training is kept."""
    name = row.name.replace(" ", "-").replace("/", "-").replace(":", "-")
    return TRAININGS / f"{name}-{seed}-{method}.pt"


def kept(rows: Sequence[Row], seeds: Sequence[int]) -> Iterator[Training]:
    """Yield the trainings that there are."""
    paths = (path_of(row, seed) for row in rows for seed in seeds)
    yield from (_read(path) for path in paths if path.exists())


def plain_answers(training: Training) -> Tensor | None:
    """Return the probabilities (M, K) of LoRA's 40 steps on the same split; None: not measured."""
    path = path_of(training.row, training.seed, _METHOD)
    return torch.load(path) if path.exists() else None


def in_turn(names: Sequence[str], seeds: Sequence[int]) -> list[tuple[Row, int]]:
    """Return splits, the groups in turn, each group's cheapest first; a seed after the other."""
    by_group: dict[str, list[Row]] = {}
    for row in rows_of(names):
        if row.per_label > 1:
            by_group.setdefault(unseen.SOURCES[row.set_name].group, []).append(row)
    queues = [sorted(rows, key=_cost) for rows in by_group.values()]
    longest = max(map(len, queues))
    turns = [queue[at] for at in range(longest) for queue in queues if at < len(queue)]
    return [(row, seed) for seed in seeds for row in turns]


def _cost(row: Row) -> float:
    texts = unseen.load(row.set_name)
    count = len(texts.labels) * (row.per_label + row.fewest) / 2
    words = [min(_MOST_WORDS, len(t.split())) for each in texts.texts.values() for t in each]
    return min(count, 32) * (_OVERHEAD + sum(words) / len(words))


def split_of(row: Row, seed: int) -> tuple[Split, LabelledSet]:
    """Draw a split whose texts are cut and whose test is small enough."""
    texts = unseen.load(row.set_name)
    drawn = drawn_from(texts, row, seed)
    most = max(1, _MOST_TESTED // len(texts.labels))
    taken: dict[str, int] = {}
    test = []
    for example in drawn.test:
        taken[example.target] = taken.get(example.target, 0) + 1
        if taken[example.target] <= most:
            test.append(_cut(example))
    return Split([_cut(example) for example in drawn.train], test), texts


def _cut(example: Example) -> Example:
    return Example(" ".join(example.input.split()[:_MOST_WORDS]), example.target)


class Recorder:
    """Trains on splits, and keeps what that gives.

    Args:
        model: loaded on this thread.
    """

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self._features: dict[str, Tensor] = {}

    def record(self, row: Row, seed: int) -> bool:
        """Train as `auto` does; return False where a label has no example."""
        split, texts = split_of(row, seed)
        given = self._given(split.train, seed)
        if len(given.start.labels) < len(texts.labels):
            return False
        form = given.objective.fit(given.features, torch.arange(len(split.train)))
        tested = [example.input for example in split.test]
        whole = self._moved(given, given.last_beginning(form), tested)
        number = {label: at for at, label in enumerate(given.start.labels)}
        training = Training(
            row=row,
            seed=seed,
            digest=texts.digest,
            features=given.features,
            targets=torch.tensor([number[example.target] for example in split.train]),
            test=self._base_features(tested),
            wanted=torch.tensor([number[example.target] for example in split.test]),
            names=given.objective.prior.weight,
            whole=whole,
            folds=tuple(self._fold(given, *fold) for fold in given.folds),
        )
        _write(training, path_of(row, seed))
        return True

    def record_plain(self, row: Row, seed: int) -> bool:
        """Take LoRA's 40 steps; return False where a label has no example."""
        split, texts = split_of(row, seed)
        recipe = Recipe(method=_METHOD, seed=seed, max_steps=_STEPS)
        start = self._model.start(split.train, recipe)
        if len(start.labels) < len(texts.labels):
            return False
        tensors, _ = _last(adapt(start))
        given = self._given(split.train, seed)
        rows = self._at(given, tensors, [example.input for example in split.test])
        probabilities = given.names.read(tensors)(rows).softmax(1)
        path = path_of(row, seed, _METHOD)
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(probabilities, path)
        return True

    def _given(self, examples: Sequence[Example], seed: int) -> Given:
        model = self._model
        recipe = Recipe(method=_METHOD, seed=seed)
        start = finished(model.starting(examples, recipe, is_blind=True))
        features = self._base_features([example.input for example in examples])
        given = given_of(start, model.predictions.phase, features, time.monotonic())
        assert given is not None
        return given

    def _fold(self, given: Given, train: Tensor, others: Tensor) -> Fold:
        form = given.objective.fit(given.features, train)
        run = given.beginning(train, form, max(1, int(given.steps * _FOLD_STEPS)))
        texts = [given.start.examples[at].input for at in others.tolist()]
        return Fold(train, others, self._moved(given, run, texts))

    def _moved(self, given: Given, run: Start, texts: Sequence[str]) -> Moved:
        began = time.process_time()
        tensors, _ = _last(adapt(run))
        seconds = time.process_time() - began
        half = middle(run.tensors, tensors)
        begin, end = given.names.read(run.tensors), given.names.read(tensors)
        return Moved(
            (begin.weight, begin.bias),
            (end.weight, end.bias),
            self._at(given, half, texts),
            self._at(given, tensors, texts),
            seconds,
        )

    def _at(self, given: Given, tensors: Tensors, texts: Sequence[str]) -> Tensor:
        start = given.start
        device = start.precision.device
        moved = {name: tensor.to(device) for name, tensor in tensors.items()}
        replica = serving_replica(start.template, moved, start.scales)
        return self._computed(replica, texts)

    def _base_features(self, texts: Sequence[str]) -> Tensor:
        missing = [text for text in dict.fromkeys(texts) if text not in self._features]
        if missing:
            rows = self._computed(self._model.base, missing)
            self._features |= dict(zip(missing, rows, strict=True))
        return torch.stack([self._features[text] for text in texts])

    def _computed(self, module: Any, texts: Sequence[str]) -> Tensor:  # noqa: ANN401
        model = self._model
        rows = finished(features_of(model.predictions.phase, module, texts, model.batch_size))
        assert rows is not None
        return rows


def _last(work: Generator[Any, None, Any]) -> Any:  # noqa: ANN401 - what the work returns
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return stop.value


def _write(training: Training, path: Path) -> None:
    """Write a file at once: one that was cut off must not be taken for a whole one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {name: getattr(training, name) for name in Training.__dataclass_fields__}
    plain["row"] = asdict(training.row)
    plain["whole"] = vars(training.whole)
    plain["folds"] = [{**vars(fold), "moved": vars(fold.moved)} for fold in training.folds]
    partial = path.with_suffix(".part")
    torch.save(plain, partial)
    partial.rename(path)


def _read(path: Path) -> Training:
    plain: Mapping[str, Any] = torch.load(path)
    folds = tuple(Fold(f["train"], f["others"], Moved(**f["moved"])) for f in plain["folds"])
    rest = {**plain, "row": Row(**plain["row"]), "whole": Moved(**plain["whole"]), "folds": folds}
    return Training(**rest)
