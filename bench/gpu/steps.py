"""The cost of an adaptation's step on a device: how often it waits, and how long it takes."""

import statistics
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bench.report import clock
from cog_adapt.runner.adaptation.run import Adapting, adapt
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import read_examples
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.task.task import Task

ROWS = Path(__file__).parents[2] / "examples" / "tickets.jsonl"
PRECISIONS = ("fp32", "bf16", "fp16")
_WARM_UP = 3  # steps: the optimizer's state is made, kernels are chosen


class Crossings(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts tensors that cross between the host and the device; each read is a wait."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.reads = self.uploads = 0

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - PyTorch's operations have no common type
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Run the operation and count it."""
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        given = [each for each in args if isinstance(each, Tensor)]
        if name == "_local_scalar_dense":
            self.reads += given[0].is_cuda
        elif name in {"_to_copy", "copy_"}:
            self.reads += given[-1].is_cuda and not result.is_cuda
            self.uploads += result.is_cuda and not given[-1].is_cuda
        return result


def cost_of(
    task: Task, device: str, precision: str, steps: int, is_stand_in: bool
) -> dict[str, Any]:
    """Adapt the shipped examples for some steps; return the medians of one step.

    On the stand-in there are no seconds, because its kernels are the CPU's.
    """
    settings = RunnerSettings.from_environment({"DEVICE": device, "PRECISION": precision})
    model = LoadedModel(task, settings)
    rows = read_examples(ROWS).examples
    torch.cuda.reset_peak_memory_stats(model.base.precision.device)
    ticks = adapt(model.start(rows, Recipe("lora", max_steps=2 * (_WARM_UP + steps))))
    taken = [_timed(ticks, model.base.precision.device) for _ in range(_WARM_UP + steps)]
    counted = [_counted(ticks) for _ in range(steps)]
    ticks.close()
    return {
        "device": str(model.base.precision.device),
        "precision": precision,
        "recipe": "LoRA on all blocks, 32 texts a step",
        "seconds_a_step": None if is_stand_in else statistics.median(taken[_WARM_UP:]),
        "reads_a_step": statistics.median(reads for reads, _ in counted),
        "uploads_a_step": statistics.median(uploads for _, uploads in counted),
        "peak_bytes": torch.cuda.max_memory_allocated(model.base.precision.device),
    }


def _timed(ticks: Adapting, device: torch.device) -> float:
    began = clock(device)
    while next(ticks) is None:
        pass
    return clock(device) - began


def _counted(ticks: Adapting) -> tuple[int, int]:
    with Crossings() as crossings:
        while next(ticks) is None:
            pass
    return crossings.reads, crossings.uploads
