"""Healthy models of PyTorch's own layers, losses and idioms."""

import torch
from torch import nn
from torch.nn import functional as F

from gradient_check.exam.case import ModuleQuestions
from gradient_check.exam.known.hosts import IDS, PLAIN, CausalTransformer, next_token, rows

questions = ModuleQuestions("layers of torch", **PLAIN)
healthy = questions.sound


@healthy(probe=IDS, loss=next_token)
def causal_lm():
    return CausalTransformer()


@healthy(
    probe=(
        rows(3, 5, 16),
        torch.tensor([[0, 0, 0, 0, 1], [0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]).bool(),
    ),
    loss=lambda module, batch: (
        (module(batch[0], src_key_padding_mask=batch[1]) * (~batch[1]).unsqueeze(-1))
        .pow(3)
        .mean((1, 2))
    ),
)
def padded_te():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)


@healthy("surrogate", probe=rows(4, 6))
def ste():
    class Rounded(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 6)

        def forward(self, x):
            h = self.linear(x)
            return h + ((h * 4).round() / 4 - h).detach()

    return nn.Sequential(nn.Linear(6, 6), Rounded(), nn.Linear(6, 2))


@healthy(probe=rows(4, 3, 8, 8))
def groupnorm():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.Conv2d(8, 8, 3),
        nn.InstanceNorm2d(8, affine=True),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 3),
    )


@healthy(probe=rows(4, 5, 6), loss=lambda output: output[0].pow(2).mean((1, 2)))
def lstm():
    return nn.LSTM(6, 8, batch_first=True, bidirectional=True, dropout=0.2, num_layers=2)


@healthy(probe=rows(4, 5, 8), loss=lambda module, x: module(x, x, x)[0].pow(2).mean((1, 2)))
def mha():
    return nn.MultiheadAttention(8, 2, batch_first=True)


@healthy(loss=torch.mean)
def odd():
    return nn.Sequential(nn.Linear(6, 1), nn.Flatten(0))


@healthy(loss=lambda output: -F.log_softmax(output, -1)[:, 0])
def bn1d():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


@healthy(loss=lambda output: output.sum(1) * 1e-4)
def smallloss():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


@healthy(loss=lambda output: output[:, 0] - output[:, 1])
def signedloss():
    return nn.Sequential(
        nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3)
    )


@healthy()
def relu_wide():
    return nn.Sequential(
        nn.Linear(6, 500), nn.ReLU(), nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, 3)
    )


@healthy(loss=lambda output: F.relu(1 - output[:, 0] * 10))
def hinge():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


@healthy()
def rezero():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.share = nn.Parameter(torch.zeros(1))
            self.linear = nn.Linear(6, 6)

        def forward(self, x):
            return x + self.share * torch.tanh(self.linear(x))

    return nn.Sequential(Residual(), Residual(), nn.Linear(6, 2))


@healthy(probe=rows(8, 6))
def topk_moe():
    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.router = nn.Linear(6, 4)
            self.experts = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))

        def forward(self, x):
            weights, chosen = self.router(x).softmax(-1).topk(2)
            outputs = torch.stack([expert(x) for expert in self.experts], 1)
            index = chosen.unsqueeze(-1).expand(-1, -1, 6)
            return (outputs.gather(1, index) * weights.unsqueeze(-1)).sum(1)

    return nn.Sequential(nn.Linear(6, 6), Mixture())


@healthy(probe=rows(3, 6).to(torch.complex64))
def complexish():
    class Complex(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Parameter(torch.randn(6, 4, dtype=torch.complex64))
            self.head = nn.Linear(4, 2)

        def forward(self, x):
            return self.head((x @ self.mix).abs())

    return Complex()


@healthy(
    loss=lambda output: F.cross_entropy(
        output @ output.T, torch.tensor([1, 2, 0]), reduction="none"
    )
)
def swa_scalar():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 4)
            self.temperature = nn.Parameter(torch.tensor(2.6592))

        def forward(self, x):
            return F.normalize(self.linear(x), dim=-1) * self.temperature.exp()

    return Scaled()


@healthy(probe=rows(3, 6))
def attention_with_masked_fill():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query = nn.Linear(6, 6)
            self.key = nn.Linear(6, 6)
            self.value = nn.Linear(6, 6)

        def forward(self, x):
            scores = self.query(x) @ self.key(x).T
            scores = scores.masked_fill(torch.triu(torch.ones(3, 3), 1).bool(), float("-inf"))
            return scores.softmax(-1) @ self.value(x)

    return Attention()


@healthy(probe=rows(4, 6))
def inplace_relu():
    return nn.Sequential(
        nn.Linear(6, 16),
        nn.ReLU(inplace=True),
        nn.Linear(16, 16),
        nn.ReLU6(inplace=True),
        nn.Linear(16, 2),
    )


@healthy(probe=rows(4, 6))
def maskedlinear():
    class Masked(nn.Linear):
        mask: torch.Tensor

        def __init__(self, inputs, outputs):
            super().__init__(inputs, outputs)
            self.register_buffer("mask", torch.tril(torch.ones(outputs, inputs)))

        def forward(self, x):
            return F.linear(x, self.weight * self.mask, self.bias)

    return nn.Sequential(Masked(6, 6), nn.ELU(), Masked(6, 6))


@healthy(probe=torch.tensor([[1, 2, 3], [3, 2, 1]]))
def embbag():
    return nn.Sequential(nn.EmbeddingBag(50, 8, mode="mean"), nn.Linear(8, 2))
