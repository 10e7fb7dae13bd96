"""The losses and scores of examples on a replica, with the same noise at each scoring."""

from collections.abc import Generator, Mapping, Sequence

import torch
from torch import Tensor, nn

from cog_adapt.runner.adaptation.encoded import EncodedExamples
from cog_adapt.runner.adaptation.start import Start, StepRows
from cog_adapt.runner.modules.row_noise import drawing_by_row
from cog_adapt.runner.task.task import Task
from gradient_check.phases.modes import run_inference
from gradient_check.phases.randomness import derive_seed, seeded
from gradient_check.phases.replicas import serving_replica

_DRAWS = 8  # of the noise of each example


def score_draws(task: Task) -> int:
    """Return the rows of each scored example: several for a random loss that is its own score.

    One draw of the noise says little about a loss, and the best step is chosen by it.
    """
    is_random = task.random_loss and type(task).score is Task.score
    return _DRAWS if is_random else 1


def rated(start: Start, replica: nn.Module, rows: StepRows) -> Tensor:
    """Return the losses and the scores of some rows, (2, N), by one seed, so that they compare."""
    precision = start.training.precision
    return run_inference(
        _loss_and_score,
        replica,
        precision,
        "no_grad",
        task=start.task,
        rows=rows,
        seed=derive_seed(start.training.recipe.seed, "held out"),
        device=precision.device,
    )


def scores_of(
    start: Start, tensors: Mapping[str, Tensor], chosen: Sequence[int]
) -> Generator[None, None, Tensor]:
    """Return the mean loss and score of each chosen example of a start, (M, 2), one a tick.

    Args:
        start: has the task, the base and the examples.
        tensors: of the adapter that is scored.
        chosen: positions of examples.
    """
    device = start.training.precision.device
    moved = {name: tensor.to(device) for name, tensor in tensors.items()}
    replica = serving_replica(start.trained.template, moved, start.trained.scales)
    examples, draws = EncodedExamples(start), score_draws(start.task)
    found = []
    for position in chosen:
        yield from examples.encoding([position], 1)
        found.append(rated(start, replica, examples.rows([position] * draws)).mean(1).cpu())
        yield None
    return torch.stack(found)


def _loss_and_score(
    module: nn.Module, task: Task, rows: StepRows, seed: int, device: torch.device
) -> Tensor:
    values = []
    for rate in (task.loss, task.score):
        with seeded(seed, device), drawing_by_row(rows.positions, rows.earlier):
            values.append(rate(module, rows.batch, rows.targets).double())
    return torch.stack(values)
