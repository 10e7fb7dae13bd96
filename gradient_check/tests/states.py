"""What tests use to see whether a call left a trace: threads, the process, a module's every bit."""

import hashlib
import random

import numpy as np
import torch
from torch import nn
from torch.nn.modules import module as module_globals


def thread_modes() -> dict[str, object]:
    """What autograd and autocast are set to on this thread."""
    nesting = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast cpu": torch.is_autocast_enabled("cpu"),
        "autocast cuda": torch.is_autocast_enabled("cuda"),
        "nesting": nesting,
        "default device": torch.get_default_device(),
    }


def process_state() -> dict[str, object]:
    """What is kept once for all threads: random streams, defaults, global hooks."""
    generator, words, *rest = np.random.get_state()
    return {
        "torch stream": torch.get_rng_state().numpy().tobytes(),
        "python stream": random.getstate(),
        "numpy stream": (generator, np.asarray(words).tobytes(), *rest),
        "dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "matmul": torch.get_float32_matmul_precision(),
        "hooks": {
            name: len(table)
            for name, table in vars(module_globals).items()
            if name.startswith("_global_") and hasattr(table, "__len__")
        },
    }


def module_state(module: nn.Module) -> dict[str, object]:
    """Every bit of a module's tensors, and whatever could be set on them or on its parts."""
    state: dict[str, object] = {}
    tensors = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    for name, tensor in tensors:
        raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8).cpu().numpy()
        state[f"tensor {name}"] = (
            id(tensor),
            tensor.data_ptr(),
            tensor.shape,
            tensor.stride(),
            tensor.dtype,
            tensor.requires_grad,
            tensor.grad is None,
            len(tensor._backward_hooks or ()),
            hashlib.sha256(raw.tobytes()).hexdigest(),
        )
    for name, part in module.named_modules():
        hooks = {key: len(table) for key, table in vars(part).items() if key.endswith("_hooks")}
        state[f"module {name}"] = (id(part), type(part), part.training, hooks, sorted(vars(part)))
    return state
