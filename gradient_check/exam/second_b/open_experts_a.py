"""Open cases of sparse experts and routing, part a."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradient_check.exam.case import Case, Questions, rows

questions = Questions("experts")


@questions.fault("graph-cut")
def top_two_experts_averaged_whatever_the_router_says() -> Case:
    class Moe(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(6, 4)
            self.experts = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            chosen = self.router(x).softmax(-1).topk(2, -1).indices  # fault: the values are lost
            every = torch.stack([expert(x) for expert in self.experts], 1)
            return every.gather(1, chosen[..., None].expand(-1, -1, 6)).mean(1)

    return Case(nn.Sequential(Moe(), nn.Tanh(), nn.Linear(6, 2)), rows(24, 6))


@questions.healthy("rough", "unreached")
def top_two_of_four_experts() -> Case:
    class Moe(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(6, 4)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 6)) for _ in range(4)
            )

        def forward(self, x: Tensor) -> Tensor:
            values, chosen = self.router(x).topk(2, -1)
            gates = torch.zeros(len(x), 4, dtype=x.dtype)
            gates = gates.scatter(1, chosen, values.softmax(-1))
            every = torch.stack([expert(x) for expert in self.experts], 1)
            return x + (gates[..., None] * every).sum(1)

    return Case(nn.Sequential(Moe(), nn.Linear(6, 2)), rows(24, 6))


@questions.fault("unregistered")
def experts_in_a_plain_list() -> Case:
    class Moe(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(6, 3)
            self.experts = [nn.Linear(6, 4) for _ in range(3)]  # fault: no ModuleList

        def forward(self, x: Tensor) -> Tensor:
            gates = self.router(x).softmax(-1)
            every = torch.stack([expert(x) for expert in self.experts], 1)  # fault shows here
            return (gates[..., None] * every).sum(1)

    return Case(Moe(), rows(8, 6))


@questions.healthy()
def noisy_gating_under_declared_noise() -> Case:
    class NoisyMoe(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router, self.noise = nn.Linear(6, 3), nn.Linear(6, 3)
            self.experts = nn.ModuleList(nn.Linear(6, 4) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            logits = self.router(x)
            if self.training:
                logits = logits + torch.randn_like(logits) * F.softplus(self.noise(x))
            gates = logits.softmax(-1)
            return sum(g[:, None] * e(x) for g, e in zip(gates.t(), self.experts, strict=True))

    return Case(NoisyMoe(), rows(8, 6), options={"random_loss": True})


@questions.fault("graph-cut")
def expert_outputs_written_past_autograd() -> Case:
    class Dispatch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(6, 3)
            self.experts = nn.ModuleList(nn.Linear(6, 4) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            gate, chosen = self.router(x).softmax(-1).max(-1)
            output = x.new_zeros(len(x), 4)
            for number, expert in enumerate(self.experts):
                mine = chosen == number
                output.data[mine] = expert(x[mine])  # fault: .data records nothing
            return output * gate[:, None]

    return Case(Dispatch(), rows(24, 6))


@questions.healthy("rough", "unreached")
def dispatch_by_index_add() -> Case:
    class Dispatch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(6, 3)
            self.experts = nn.ModuleList(nn.Linear(6, 4) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            gates, chosen = self.router(x).softmax(-1).topk(2, -1)
            output = x.new_zeros(len(x), 4)
            for number, expert in enumerate(self.experts):
                token, slot = torch.where(chosen == number)
                output.index_add_(0, token, expert(x[token]) * gates[token, slot, None])
            return output

    return Case(Dispatch(), rows(24, 6))


@questions.fault("graph-cut", "unused")
def selection_bias_registered_as_a_parameter() -> Case:
    class BiasedMoe(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(6, 4)
            self.bias = nn.Parameter(torch.tensor([0.05, -0.05, 0.02, -0.02]))  # fault
            self.experts = nn.ModuleList(nn.Linear(6, 4) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            scores = self.router(x).sigmoid()
            chosen = (scores + self.bias).topk(2, -1).indices  # fault: indices alone see the bias
            gates = torch.zeros_like(scores).scatter(1, chosen, scores.gather(1, chosen))
            every = torch.stack([expert(x) for expert in self.experts], 1)
            return (gates[..., None] * every).sum(1)

    return Case(BiasedMoe(), rows(48, 6))


@questions.healthy("surrogate", "rough", "unreached")
def library_gumbel_softmax_in_its_hard_form() -> Case:
    class HardGate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(6, 3)
            self.experts = nn.ModuleList(nn.Linear(6, 4) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            logits = self.router(x)
            if self.training:
                gates = F.gumbel_softmax(logits, tau=0.8, hard=True)
            else:
                gates = F.one_hot(logits.argmax(-1), 3).to(x.dtype)
            every = torch.stack([expert(x) for expert in self.experts], 1)
            return (gates[..., None] * every).sum(1)

    return Case(HardGate(), rows(24, 6), options={"random_loss": True})


@questions.fault("graph-cut")
def mixture_weights_detached_in_the_likelihood() -> Case:
    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 16), nn.Tanh())
            self.shares, self.means, self.widths = (nn.Linear(16, 4) for _ in range(3))

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            hidden = self.body(x)
            log_width = self.widths(hidden)
            shares = self.shares(hidden).log_softmax(-1).detach()  # fault
            error = (y - self.means(hidden)) / log_width.exp()
            return -torch.logsumexp(shares - 0.5 * error.square() - log_width, -1)

    return Case(Mixture(), (rows(10, 3), rows(10, 1, seed=1)), lambda losses: losses)


@questions.healthy()
def mixture_density_network() -> Case:
    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 16), nn.Tanh())
            self.head = nn.Linear(16, 12)

        def forward(self, x: Tensor) -> torch.distributions.Distribution:
            shares, means, widths = self.head(self.body(x)).chunk(3, -1)
            return torch.distributions.MixtureSameFamily(
                torch.distributions.Categorical(logits=shares),
                torch.distributions.Normal(means, F.softplus(widths) + 0.1),
            )

    def loss(module: nn.Module, probe: tuple[Tensor, Tensor]) -> Tensor:
        x, y = probe
        return -module(x).log_prob(y)

    return Case(Mixture(), (rows(10, 3), rows(10, seed=1)), loss)


@questions.fault("graph-cut")
def product_keys_that_only_choose() -> Case:
    class Memory(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query = nn.Linear(6, 8)
            self.keys = nn.Parameter(rows(2, 5, 4, seed=1))
            self.values = nn.Embedding(25, 4)

        def forward(self, x: Tensor) -> Tensor:
            left, right = self.query(x).chunk(2, -1)
            first = (left @ self.keys[0].t()).topk(2, -1).indices  # fault: scores are dropped
            second = (right @ self.keys[1].t()).topk(2, -1).indices  # fault
            return self.values(first * 5 + second).mean(1)

    return Case(Memory(), rows(32, 6))


@questions.healthy("rough")
def product_key_memory_with_its_scores() -> Case:
    class Memory(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query = nn.Linear(6, 8)
            self.keys = nn.Parameter(rows(2, 5, 4, seed=1))
            self.values = nn.Embedding(25, 4)

        def forward(self, x: Tensor) -> Tensor:
            left, right = self.query(x).chunk(2, -1)
            a, i = (left @ self.keys[0].t()).topk(2, -1)
            b, j = (right @ self.keys[1].t()).topk(2, -1)
            scores = (a[:, :, None] + b[:, None, :]).flatten(1)
            slots = (i[:, :, None] * 5 + j[:, None, :]).flatten(1)
            return (scores.softmax(-1)[..., None] * self.values(slots)).sum(1)

    return Case(Memory(), rows(32, 6))
