"""Repeatable randomness that leaves the process's own random streams unchanged.

PyTorch's dropout uses the process's default generator only. So work that must be repeatable runs
between a seed and a restore, in one synchronous call on the model thread.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derive_seed(seed: int, *path: int | str) -> int:
    """Derive a separate seed for each purpose: equal for equal arguments, else unrelated."""
    text = "/".join(map(str, (seed, *path)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *path: int | str) -> torch.Generator:
    """Make a separate CPU generator, seeded by `derive_seed`."""
    return torch.Generator().manual_seed(derive_seed(seed, *path))


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the default generators of the CPU and of `device`, and restore them afterwards."""
    cpu_state = torch.get_rng_state()
    cuda_state = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    try:
        torch.default_generator.manual_seed(seed)
        if cuda_state is not None:
            _seed_cuda(seed, device)
        yield
    finally:
        torch.set_rng_state(cpu_state)
        if cuda_state is not None:
            torch.cuda.set_rng_state(cuda_state, device)


def _seed_cuda(seed: int, device: torch.device) -> None:
    with torch.cuda.device(device):
        torch.cuda.manual_seed(seed)
