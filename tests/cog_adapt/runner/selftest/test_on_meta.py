"""A model of 7 billion weights in bfloat16 can be tested on a card of 24 GB: counted on meta.

Counted are the tensors of the gradient test at their shapes and dtypes: the private objects, an
inference, a training forward with its graph and backward, a move along the gradient, a step of
AdamW. Not counted are the CUDA context and what kernels take while they run; a tenth is left for
them. Numbers are made up, since meta tensors have none.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from bench.live_bytes import LiveBytes
from gradient_check.instruments.directions import Direction, move
from gradient_check.instruments.probe_loss import ProbeLoss
from gradient_check.instruments.subject import CheckOptions, Subject
from gradient_check.phases.lora import lora_tensors
from gradient_check.phases.precision import Precision
from gradient_check.phases.replicas import serving_replica

CARD, LEFT = 24e9, 0.9
WIDTH, HIDDEN, LAYERS, HEADS, WORDS = 4096, 11_008, 32, 32, 32_000
TEXTS, TOKENS, RANK = 2, 64, 8
BF16 = torch.bfloat16


class PretendNumbers(TorchDispatchMode):
    """Answers 1 where a number is asked of a meta tensor."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            return 1.0
        return func(*args, **(kwargs or {}))


class Layer(nn.Module):
    """A block of Llama: attention and a gated MLP, each after a norm."""

    def __init__(self) -> None:
        super().__init__()
        square: Any = {"in_features": WIDTH, "out_features": WIDTH, "bias": False}
        self.q, self.k, self.v, self.o = (nn.Linear(**square) for _ in range(4))
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.before, self.after = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)

    def forward(self, h: Tensor) -> Tensor:
        n = self.before(h)
        q, k, v = (
            part(n).view(*n.shape[:2], HEADS, -1).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        scores = (q @ k.transpose(2, 3)).softmax(-1)
        h = h + self.o((scores @ v).transpose(1, 2).reshape(n.shape))
        n = self.after(h)
        return h + self.down(F.silu(self.gate(n)) * self.up(n))


class Llama(nn.Module):
    """Llama of 7 billion weights."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids: Tensor) -> Any:
        h = self.words(ids)
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h)).float()


def with_pairs(base: nn.Module) -> tuple[nn.Module, list[str]]:
    """The base joined with LoRA pairs of all linear layers but the head."""
    pairs: dict[str, Tensor] = {}
    for name, part in base.named_modules():
        if isinstance(part, nn.Linear) and name != "head":
            made = lora_tensors(part, RANK, torch.Generator())
            pairs |= {f"{name}.{leaf}": tensor.to("meta") for leaf, tensor in made.items()}
    return serving_replica(base, pairs), list(pairs)


def test_a_model_of_7_billion_weights_fits_a_card_of_24_gb(monkeypatch):
    with torch.device("meta"):
        base = Llama().to(BF16)
        ids = torch.zeros(TEXTS, TOKENS, dtype=torch.long)
    weights = sum(p.nbytes for p in base.parameters())
    assert weights > 13.4e9
    monkeypatch.setattr("gradient_check.phases.room.free_memory", lambda _device: CARD - weights)

    def loss(module: nn.Module, ids: Tensor) -> Tensor:
        return F.cross_entropy(module(ids).transpose(1, 2), ids, reduction="none").mean(1)

    def make(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=1e-3, foreach=False)

    precision = Precision(torch.device("cpu"), BF16)
    with PretendNumbers(), LiveBytes(base) as live:
        module, names = with_pairs(base)
        options = CheckOptions(precision, "inference_mode", make, False, 0)
        tested = Subject(module, ids, ProbeLoss(loss, ids), names, options)
        tested.serve(tested.base, 0)
        assert tested.weights is not None
        tested.weights.lend()
        tested.perturb(tested.names)
        tested.hold(tested.names)
        tested.gradients()
        own = [p for p in tested.parameters.values() if p.grad is not None]
        assert len(own) == len(names)
        ways = [Direction(p.grad) for p in own if p.grad is not None]
        with torch.no_grad():
            move([p.detach() for p in own], ways, 1e-3)
        tested.step.optimizer.step()
    assert live.peak > sum(p.nbytes * 4 for p in own)
    assert weights + live.peak <= LEFT * CARD


def test_it_would_not_fit_with_a_private_copy():
    """What `method-only` avoids: the same weights twice."""
    with torch.device("meta"):
        weights = sum(p.nbytes for p in Llama().to(BF16).parameters())
    assert 2 * weights > CARD
