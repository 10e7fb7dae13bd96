"""The facts of a run in a receipt: task, base, versions, device, determinism.

Two runs with equal facts, examples and recipe give equal bits if `bit_for_bit` says so.
"""

import platform
from collections.abc import Sequence
from typing import Any

import torch

from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.known.adaptation_key import rows_of, source_digest, sum_of
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.storage.metadata import digest_of, now, versions
from gradient_check.phases.determinism import is_repeatable


def facts_of(runner: ModelRunner) -> dict[str, Any]:
    """Describe a runner at this moment.

    After a run the base is compared bit by bit with its census; a changed base gives no receipt.
    """
    task, device = runner.task, runner.precision.device
    return {
        "made_at": now(),
        "task": {"class": type(task).__qualname__, "source": source_digest(task)},
        "base": {"before": runner.base, "after": runner.base},
        "versions": versions() | {"python": platform.python_version()},
        "device": {
            "name": _device_name(device),
            "precision": str(runner.precision),
            "threads": runner.model.threads,
        },
        "determinism": {
            "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "bit_for_bit": is_repeatable(device),
        },
    }


def data_digest(examples: Sequence[Example]) -> str:
    """Return a digest of the examples' content; without a canonical form, of their printed form."""
    rows = rows_of(examples)
    return digest_of(examples) if rows is None else sum_of(rows)


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return the names of facts that differ between two runs and may change the result."""
    found = []
    for part in ("task", "base", "versions", "device", "determinism"):
        theirs, ours = one.get(part) or {}, other[part]
        found += [
            f"{part} {name}: {theirs.get(name)!r} then, {ours[name]!r} now"
            for name in ours
            if theirs.get(name) != ours[name]
        ]
    return found


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return platform.processor() or platform.machine()
