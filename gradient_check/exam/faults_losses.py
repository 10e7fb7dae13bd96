"""Faults of losses, of generative models, of graphs and of tables."""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, numbers, off_target, rows

questions = Questions("faults")
TABLE = rows(6, 5)
LABELS = numbers(3, 6)


def classifier() -> nn.Module:
    """Return a small classifier of rows."""
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


@questions.fault("graph-cut", "no-gradient")
def an_accuracy_is_the_loss() -> Case:
    def loss(logits: Tensor) -> Tensor:
        return (logits.argmax(1).float() - LABELS).abs()  # fault

    return Case(classifier(), TABLE, loss)


@questions.fault("graph-cut", "no-gradient")
def a_loss_is_made_anew_to_require_grad() -> Case:
    def loss(logits: Tensor) -> Tensor:
        value = F.cross_entropy(logits, LABELS)
        return torch.tensor(value.item(), requires_grad=True)  # fault

    return Case(classifier(), TABLE, loss)


@questions.fault("loss-shape")
def a_loss_of_a_float() -> Case:
    return Case(classifier(), TABLE, lambda logits: F.cross_entropy(logits, LABELS).item())


@questions.fault("loss-shape")
def a_loss_for_each_class() -> Case:
    return Case(classifier(), TABLE, lambda logits: (logits - 1).square())


@questions.fault("unused")
def a_loss_that_forgets_its_module() -> Case:
    class Frozen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = classifier()

        def loss(self, module: nn.Module, probe: Tensor) -> Tensor:
            return F.cross_entropy(self.net(probe), LABELS, reduction="none")

    other = Frozen()
    return Case(classifier(), TABLE, lambda module, probe: other.loss(module, probe))


@questions.fault("leak-to-base")
def a_loss_uses_a_module_around_it() -> Case:
    net = classifier()

    def loss(module: nn.Module, probe: Tensor) -> Tensor:
        return F.cross_entropy(net(probe), LABELS, reduction="none")  # fault

    return Case(net, TABLE, loss)


@questions.fault("gradient-wrong")
def a_focal_weight_is_detached() -> Case:
    def loss(logits: Tensor) -> Tensor:
        likelihood = -F.cross_entropy(logits, LABELS, reduction="none")
        weight = (1 - likelihood.exp().detach()) ** 2  # fault
        return -weight * likelihood

    return Case(classifier(), TABLE, loss)


@questions.fault("grad-nonfinite")
def an_entropy_with_a_masked_logarithm() -> Case:
    def loss(logits: Tensor) -> Tensor:
        shares = logits * (logits > 0) / 10
        return torch.where(shares > 0, shares * shares.log(), 0.0).sum(1)  # fault

    return Case(classifier(), TABLE, loss)


@questions.fault("grad-nonfinite")
def distances_of_a_row_to_itself() -> Case:
    def loss(points: Tensor) -> Tensor:
        apart = points[:, None] - points
        return apart.square().sum(-1).sqrt().mean(1)  # fault

    return Case(classifier(), TABLE, loss)


@questions.fault("nothing-trainable", "flat", "grad-zero")
def a_hinge_that_everything_satisfies() -> Case:
    return Case(classifier(), TABLE, lambda logits: F.relu(logits[:, 0] - 100))


@questions.fault("nothing-trainable", "flat", "grad-zero")
def a_softmax_over_the_one_output() -> Case:
    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
    return Case(net, TABLE, lambda logits: -logits.log_softmax(1)[:, 0])


class Autoencoder(nn.Module):
    """Encoder, latent mean and deviation, decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(5, 8), nn.Linear(2, 5)
        self.mean, self.deviation = nn.Linear(8, 2), nn.Linear(8, 2)

    def forward(self, table: Tensor) -> Tensor:
        hidden = self.encoder(table).tanh()
        latent = self.draw(self.mean(hidden), F.softplus(self.deviation(hidden)))
        return (self.decoder(latent) - table).square()

    def draw(self, mean: Tensor, deviation: Tensor) -> Tensor:
        raise NotImplementedError


@questions.fault("graph-cut")
def a_latent_is_sampled_instead_of_reparametrized() -> Case:
    class Net(Autoencoder):
        def draw(self, mean: Tensor, deviation: Tensor) -> Tensor:
            return torch.distributions.Normal(mean, deviation).sample()  # fault

    return Case(Net(), TABLE)


@questions.fault("graph-cut")
def a_latent_is_drawn_by_torch_normal() -> Case:
    class Net(Autoencoder):
        def draw(self, mean: Tensor, deviation: Tensor) -> Tensor:
            noise = torch.randn_like(mean)
            return mean.data + deviation * noise  # fault

    return Case(Net(), TABLE)


@questions.fault("graph-cut")
def a_learned_schedule_is_looked_up_as_numbers() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rates, self.net = nn.Parameter(torch.linspace(-1, 1, 4)), nn.Linear(5, 5)

        def forward(self, table: Tensor) -> Tensor:
            kept = torch.as_tensor([self.rates.sigmoid().cumprod(0)[2].item()])  # fault
            noisy = kept.sqrt() * table + (1 - kept).sqrt() * rows(6, 5, seed=3)
            return self.net(noisy) - rows(6, 5, seed=3)

    return Case(Net(), TABLE)


@questions.fault("graph-cut", "unused", "no-gradient")
def the_loss_goes_through_a_copy() -> Case:
    def loss(module: nn.Module, probe: Tensor) -> Tensor:
        average = copy.deepcopy(module)  # fault
        return off_target(average(probe))

    return Case(classifier(), TABLE, loss)


@questions.fault("graph-cut")
def messages_are_added_into_data() -> Case:
    sources, targets = numbers(6, 9), numbers(6, 9, seed=1)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.message, self.out = nn.Linear(5, 5), nn.Linear(5, 2)

        def forward(self, nodes: Tensor) -> Tensor:
            sums = torch.zeros_like(nodes)
            sums.data.index_add_(0, targets, self.message(nodes)[sources])  # fault
            return self.out(nodes + sums)

    return Case(Net(), TABLE)


@questions.fault("graph-cut")
def edges_are_learned_but_read_as_numbers() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.edges, self.out = nn.Parameter(rows(6, 6)), nn.Linear(5, 2)

        def forward(self, nodes: Tensor) -> Tensor:
            matrix = torch.tensor(self.edges.sigmoid().cpu().tolist())  # fault
            return self.out(matrix @ nodes / 6)

    return Case(Net(), TABLE)


@questions.fault("graph-cut")
def learned_bins_are_only_compared() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.limits, self.bins = nn.Parameter(torch.linspace(-1, 1, 6)), nn.Embedding(7, 4)

        def forward(self, table: Tensor) -> Tensor:
            return self.bins(torch.bucketize(table, self.limits)).mean(1)  # fault

    return Case(Net(), rows(40, 5))


@questions.fault("graph-cut")
def a_hypernetwork_writes_its_weights_as_data() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.maker, self.out = nn.Linear(2, 10), nn.Linear(5, 2)

        def forward(self, table: Tensor) -> Tensor:
            made = self.maker(table.new_ones(2)).view(2, 5)
            return table @ made.clone().requires_grad_().data.T + self.out(table)  # fault

    return Case(Net(), TABLE)
