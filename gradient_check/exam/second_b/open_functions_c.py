"""Open cases of custom autograd functions and hooks, part c."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from gradient_check.exam.case import Case, Questions, rows

questions = Questions("functions")


@questions.fault("gradient-wrong")
def log_determinant_with_the_inverse_not_transposed() -> Case:
    class LogDet(Function):
        @staticmethod
        def forward(ctx: Any, matrix: Tensor) -> Tensor:
            ctx.save_for_backward(torch.linalg.inv(matrix))
            return torch.linalg.slogdet(matrix).logabsdet

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            (inverse,) = ctx.saved_tensors
            return grad * inverse  # fault: right for symmetric matrices alone

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.eye(4) + 0.5 * rows(4, 4, seed=1).triu())

        def forward(self, x: Tensor) -> Tensor:
            z = x @ self.weight.t()
            return 0.5 * z.square().sum(1) - LogDet.apply(self.weight)  # fault in its backward

    return Case(Flow(), 0.5 * rows(8, 4), lambda losses: losses)


@questions.healthy()
def masked_softmax_whole() -> Case:
    class MaskedSoftmax(Function):
        @staticmethod
        def forward(ctx: Any, scores: Tensor, mask: Tensor) -> Tensor:
            weights = scores.masked_fill(~mask, -1e9).softmax(-1)
            ctx.save_for_backward(weights)
            return weights

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
            (weights,) = ctx.saved_tensors
            inner = (grad * weights).sum(-1, keepdim=True)
            return weights * (grad - inner), None

    class Pool(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score, self.value = nn.Linear(6, 1, bias=False), nn.Linear(6, 4)

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            weights = MaskedSoftmax.apply(self.score(x).squeeze(-1), mask)
            return torch.einsum("bt,btd->bd", weights, self.value(x))

    mask = torch.arange(5) < torch.tensor([[5], [3], [4], [2]])
    return Case(Pool(), (rows(4, 5, 6), mask))
