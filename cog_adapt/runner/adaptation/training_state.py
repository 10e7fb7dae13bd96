"""The state of an unfinished adaptation, and its file, which survives a kill of the process.

The file is a safetensors file with the numbers as JSON in its metadata. It is written atomically,
so a reader finds either the old state or the new one.
"""

import json
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from cog_adapt.runner.adaptation.report import HeldOut, Step
from cog_adapt.runner.data.files import write_whole
from cog_adapt.runner.errors import WeightsError
from gradient_check.phases.gradient_step import GradientStep

_KEY = "cog-adapt/state/1"
_TABLES = ("tensors", "optimizer", "best", "average")
_BYTES_AT_ONCE = 32 * 2**20


@dataclass(frozen=True)
class TrainingState:
    """Everything that a run needs to continue as if it had never stopped.

    Attributes:
        tensors: the trained tensors and changed buffers.
        optimizer: the optimizer's tensors as `index/key`, and the float16 scale as `scale`.
        best: step, held-out loss and tensors of the best score so far.
        steps: the steps so far.
        scores: the held-out scores so far.
        seconds: wall time so far.
        average: the averages of the trained parameters (`Recipe.ema`).
    """

    tensors: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    best: tuple[int, float, dict[str, Tensor]]
    steps: tuple[Step, ...]
    scores: tuple[HeldOut, ...]
    seconds: float
    average: Mapping[str, Tensor] = field(default_factory=dict)


def copied_optimizer(step: GradientStep) -> Generator[None, None, dict[str, Tensor]]:
    """Copy the optimizer's tensors by `index/key`, and the scaler's numbers, to the CPU.

    Copies on the device would raise its peak memory. Each tick copies some bytes: the moments of 22
    million parameters are 180 MB, which take a third of a second.
    """
    tensors: dict[str, Tensor] = {}
    copied = 0
    for index, values in step.optimizer.state_dict()["state"].items():
        for key, value in values.items():
            tensors[f"{index}/{key}"] = torch.as_tensor(value).to("cpu", copy=True)
            copied += tensors[f"{index}/{key}"].nbytes
        if copied > _BYTES_AT_ONCE:
            copied = 0
            yield None
    if step.precision.scaled:
        state = step.scaler.state_dict()
        tensors["scale"] = torch.tensor([state["scale"], state["_growth_tracker"]])
    return tensors


def restore_optimizer(step: GradientStep, state: TrainingState) -> None:
    """Restore the tensors that `copied_optimizer` returned."""
    tensors = dict(state.optimizer)
    if "scale" in tensors:
        scale, growth = tensors.pop("scale").tolist()
        whole = step.scaler.state_dict() | {"scale": scale, "_growth_tracker": int(growth)}
        step.scaler.load_state_dict(whole)
    values: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, _, key = name.partition("/")
        values.setdefault(int(index), {})[key] = tensor
    groups = step.optimizer.state_dict()["param_groups"]
    step.optimizer.load_state_dict({"state": values, "param_groups": groups})


def save_state(state: TrainingState, path: Path) -> None:
    """Write the state to `path` atomically.

    Raises:
        StoreError: the disk is full or not writable; an earlier state is still there.
    """
    tables = {
        "tensors": state.tensors,
        "optimizer": state.optimizer,
        "best": state.best[2],
        "average": state.average,
    }
    tensors = {
        f"{table}:{name}": tensor.detach().cpu().contiguous()
        for table, entries in tables.items()
        for name, tensor in entries.items()
    }
    numbers = {
        "best": state.best[:2],
        "steps": [asdict(step) for step in state.steps],
        "scores": [asdict(score) for score in state.scores],
        "seconds": state.seconds,
    }
    write_whole(path, save(tensors, {_KEY: json.dumps(numbers)}))


def load_state(path: Path) -> TrainingState | None:
    """Read the state at `path`; return None if there is no file.

    Raises:
        WeightsError: the file holds no state.
    """
    if not path.exists():
        return None
    try:
        numbers, tables = _read(path)
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise WeightsError(
            f"{path} holds no training state: {error}. Remove it to begin again."
        ) from error
    return TrainingState(
        tensors=tables["tensors"],
        optimizer=tables["optimizer"],
        best=(*numbers["best"], tables["best"]),
        steps=tuple(Step(**step) for step in numbers["steps"]),
        scores=tuple(HeldOut(**score) for score in numbers["scores"]),
        seconds=numbers["seconds"],
        average=tables["average"],
    )


def _read(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]]]:
    """Return the numbers in a state's file, and its tables of tensors."""
    tables: dict[str, dict[str, Tensor]] = {name: {} for name in _TABLES}
    with safe_open(path, framework="pt") as file:
        numbers = json.loads((file.metadata() or {})[_KEY])
        for key in file.keys():  # noqa: SIM118 - safe_open is no mapping
            table, _, name = key.partition(":")
            tables[table][name] = file.get_tensor(key)
    return numbers, tables
