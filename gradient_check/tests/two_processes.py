"""One of two gloo processes that wrap modules; it checks gradients before wrapping and within.

    python -m gradient_check.tests.two_processes RANK FILE

It writes `FILE.RANK`, JSON by the kind of wrapper: what the check of the wrapped module said, and
whether the check of the module before wrapping it passed; for DDP also whether that of the module
within passed, and the gradients of a step afterwards.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from gradient_check import GradientReport, check_gradients
from gradient_check.phases.errors import ConfigError


def sharded(net: nn.Module) -> nn.Module:
    fully_shard(net, mesh=init_device_mesh("cpu", (2,)))  # changes its class in place
    return net


def with_a_sharded_layer(net: nn.Sequential) -> nn.Module:
    fully_shard(net[2], mesh=init_device_mesh("cpu", (2,)))
    return net


def tensor_parallel(net: nn.Sequential) -> nn.Module:
    mesh = init_device_mesh("cpu", (2,))
    return parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


WRAP: dict[str, Any] = {
    "ddp": DistributedDataParallel,
    "ddp inside": lambda net: nn.ModuleDict({"net": DistributedDataParallel(net)}),
    "fsdp": lambda net: FullyShardedDataParallel(net, device_id=torch.device("cpu")),
    "fully_shard": sharded,
    "fully_shard inside": with_a_sharded_layer,
    "tensor parallel": tensor_parallel,
}
LABELS = torch.tensor([0, 2, 1, 1])


def check(module: nn.Module, inputs: torch.Tensor) -> GradientReport:
    return check_gradients(module, (inputs, LABELS), nn.CrossEntropyLoss())


def main(kind: str, rank: int) -> dict[str, Any]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    inputs = torch.randn(4, 6, generator=torch.Generator().manual_seed(rank))
    result: dict[str, Any] = {"before": check(net, inputs).passed}
    wrapped = WRAP[kind](net)
    try:
        result["wrapped"] = str(check(wrapped, inputs))
    except ConfigError as error:
        result["wrapped"] = f"refused: {error}"
    if kind == "ddp":
        # One process alone: a check that waited for the other one would never end.
        result["within"] = check(wrapped.module, inputs).passed if rank == 0 else True
        nn.functional.cross_entropy(wrapped(inputs), LABELS).backward()
        result["gradients"] = [p.grad.tolist() for p in net.parameters() if p.grad is not None]
    return result


if __name__ == "__main__":
    torch.set_num_threads(1)
    rank, path = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    found = {kind: main(kind, rank) for kind in WRAP}
    Path(f"{path}.{rank}").write_text(json.dumps(found))
    dist.barrier()
    # A gloo thread that outlives the interpreter aborts its process now and then ("terminate called
    # without an active exception", pytorch/pytorch#179291), so that no interpreter is taken down.
    os._exit(0)
