"""Repeatable randomness that leaves the process's own random streams unchanged.

PyTorch's dropout uses the process's default generator only. So work that must be repeatable runs
between a seed and a restore, in one synchronous call on the model thread.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_thread = threading.local()


def derive_seed(seed: int, *path: int | str) -> int:
    """Derive a separate seed for each purpose: equal for equal arguments, else unrelated."""
    text = "/".join(map(str, (seed, *path)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *path: int | str) -> torch.Generator:
    """Make a separate CPU generator, seeded by `derive_seed`."""
    return torch.Generator().manual_seed(derive_seed(seed, *path))


@contextmanager
def seeded(seed: int, device: torch.device, row_seed: int | None = None) -> Iterator[None]:
    """Seed the default generators of the CPU and of `device`, and restore them afterwards.

    Args:
        seed: of the default generators.
        device: of the work inside.
        row_seed: of generators for single rows (`row_seeded`); None: `seed`.
    """
    cpu_state, *cuda_state = random_state(device)
    try:
        torch.default_generator.manual_seed(seed)
        if cuda_state:
            _seed_cuda(seed, device)
        with row_seeded(seed if row_seed is None else row_seed, device):
            yield
    finally:
        torch.set_rng_state(cpu_state)
        if cuda_state:
            torch.cuda.set_rng_state(cuda_state[0], device)


@contextmanager
def row_seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Set this thread's seed and device of generators for single rows; leave the others."""
    before = row_seed_now()
    _thread.row_seed = (seed, device)
    try:
        yield
    finally:
        _thread.row_seed = before


def row_seed_now() -> tuple[int, torch.device] | None:
    """Return the seed and the device of generators for single rows, or None."""
    found: tuple[int, torch.device] | None = getattr(_thread, "row_seed", None)
    return found


def random_state(device: torch.device) -> list[Tensor]:
    """Return the states of the default generators of the CPU and, if it is CUDA, `device`."""
    states = [torch.get_rng_state()]
    return states if device.type == "cpu" else [*states, torch.cuda.get_rng_state(device)]


def _seed_cuda(seed: int, device: torch.device) -> None:
    with torch.cuda.device(device):
        torch.cuda.manual_seed(seed)
