"""The results of gradients on a split, stored so that every rule can be judged without them.

A split is trained on as `auto` trains, on all examples and on each fold, and by LoRA of 40 steps.
The file stores the outputs of the trained head and of the closed form on features after the steps.
From these, and from the frozen features, the answers of every rule follow.
Each split has a file in `.data/left-out/trainings`, so that an interrupted run continues.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.data import Split
from bench.quality.cases import Case, rows_of
from bench.quality.features import FOLDER
from bench.sets import unseen
from bench.sets.labelled import LabelledSet
from bench.sets.rows import Row, drawn_from
from cog_adapt.runner.data.examples import Example

TRAININGS = FOLDER / "trainings"
LORA = "lora"
_MOST_WORDS = 16  # of a text: the time of a step goes by them
_MOST_TESTED = 100
_OVERHEAD = 8  # tokens of a step that do not go by a text's words
_BATCH = 32


@dataclass(frozen=True)
class Moved:
    """The results of a model after steps.

    Attributes:
        outputs: (M, K) of the texts in question, by candidate: the trained head, the closed form's
            head on the same features and, if steps begin with centroids, the middle.
        seconds: of this process's CPU time, for the steps alone.
    """

    outputs: Mapping[str, Tensor]
    seconds: float


@dataclass(frozen=True)
class Fold:
    """The positions that were trained on, and that model's results for the others."""

    train: Tensor
    others: Tensor
    moved: Moved


@dataclass(frozen=True)
class Run:
    """Steps on all examples, which answer the test texts, and on each fold, if folds exist."""

    whole: Moved
    folds: tuple[Fold, ...] = ()

    @property
    def seconds(self) -> float:
        """CPU time of all steps."""
        return self.whole.seconds + sum(fold.moved.seconds for fold in self.folds)


@dataclass(frozen=True)
class Training:
    """A split, and the results of runs on it, by name: LORA, or a number of steps with folds."""

    case: Case
    runs: Mapping[str, Run]


def path_of(row: Row, seed: int, folder: Path = TRAININGS) -> Path:
    """Return the path of a split's training."""
    name = row.name.replace(" ", "-").replace("/", "-").replace(":", "-")
    return folder / f"{name}-{seed}.pt"


def kept(rows: Sequence[Row], seeds: Sequence[int], folder: Path = TRAININGS) -> Iterator[Training]:
    """Yield the existing trainings."""
    paths = (path_of(row, seed, folder) for row in rows for seed in seeds)
    yield from (_read(path) for path in paths if path.exists())


def write(training: Training, folder: Path = TRAININGS) -> None:
    """Write a file at once: a cut file must not count as a whole one."""
    path = path_of(training.case.row, training.case.seed, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    torch.save(asdict(training), partial)
    partial.rename(path)


def _read(path: Path) -> Training:
    plain: Mapping[str, Any] = torch.load(path)
    case = Case(**{**plain["case"], "row": Row(**plain["case"]["row"])})
    return Training(case, {name: _run(run) for name, run in plain["runs"].items()})


def _run(plain: Mapping[str, Any]) -> Run:
    folds = (Fold(f["train"], f["others"], Moved(**f["moved"])) for f in plain["folds"])
    return Run(Moved(**plain["whole"]), tuple(folds))


def in_turn(names: Sequence[str], seeds: Sequence[int]) -> list[tuple[Row, int]]:
    """Return splits, the groups in turn, each group's cheapest first; one seed after another."""
    by_group: dict[str, list[Row]] = {}
    for row in rows_of(names):
        by_group.setdefault(unseen.SOURCES[row.set_name].group, []).append(row)
    queues = [sorted(rows, key=_cost) for rows in by_group.values()]
    longest = max(map(len, queues))
    turns = [queue[at] for at in range(longest) for queue in queues if at < len(queue)]
    return [(row, seed) for seed in seeds for row in turns]


def _cost(row: Row) -> float:
    texts = unseen.load(row.set_name)
    count = len(texts.labels) * (row.per_label + row.fewest) / 2
    words = [min(_MOST_WORDS, len(t.split())) for each in texts.texts.values() for t in each]
    return min(count, _BATCH) * (_OVERHEAD + sum(words) / len(words))


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
