"""The shipped predictor without its model: inputs are parsed and bounded, then nothing runs."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

import predict
import train
from cog_adapt import Batch, Example, Task
from cog_adapt.runner.adaptation.methods import start_tensors
from cog_adapt.runner.request import Request, read_request_examples
from cog_adapt.runner.requests.few_shot import Answer
from cog_adapt.runner.requests.labels import check_scores, settle_labels
from cog_adapt.runner.requests.training import Trained


class Nothing(Task):
    """A task of the template's kind, without a model."""

    def load(self) -> nn.Module:
        """Build a small module with parameters to choose from."""
        return nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))

    def encode(self, inputs: Sequence[Any]) -> Batch:
        """Give nothing."""
        return {}

    def loss(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        """Give the targets."""
        return targets

    def predict(
        self, module: nn.Module, batch: Batch, labels: Sequence[str], options: None
    ) -> list[Any]:
        """Give nothing."""
        return []

    def probe(self) -> list[Example]:
        """Give nothing."""
        return []

    def labels(self, examples: Sequence[Example]) -> tuple[str, ...]:
        """Give the texts among the targets."""
        return tuple(dict.fromkeys(e.target for e in examples if isinstance(e.target, str)))


TASK = Nothing()
MODULE = TASK.load()


def read(request: Request) -> list[dict[str, str]]:
    """Read everything in a request, and find the parameters that its method would train."""
    examples = read_request_examples(request, TASK)
    check_scores(TASK, request, settle_labels(TASK, request, examples, None))
    if request.recipe.method.startswith("match:"):
        start_tensors(MODULE, TASK, request.recipe)
    return [{"texts": str(len(request.inputs))}]


async def answer(_runner: object, request: Request, _scope: object) -> Answer:
    """Read in a thread, as `few_shot` does, and answer with the number of texts."""
    return Answer(await asyncio.to_thread(read, request))


async def trained(_runner: object, request: Request, _scope: object) -> Trained:
    """Read as `train` does, and answer with an existing file."""
    await asyncio.to_thread(read, request)
    return Trained(Path(__file__), {})


class NoTraining(train.Trainer):
    """The shipped trainer with another `train`."""

    def setup(self) -> None:
        """Load nothing, and let the trainer call the other `train`."""
        setattr(train, "train", trained)  # noqa: B010 - a name that `train` only imports
        self.runner: Any = None


class NoOp(predict.Predictor):
    """The shipped predictor with another `answer`."""

    def setup(self, weights: str | None = None) -> None:
        """Load nothing, and let the predictor call the other `answer`."""
        setattr(predict, "answer", answer)  # noqa: B010 - a name that `predict` only imports
        self.runner: Any = None

    def healthcheck(self) -> bool:
        """Be well."""
        return True
