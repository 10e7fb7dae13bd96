"""Faults behind what PyTorch wraps around modules: compilers, transforms, parametrizations."""

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F
from torch.nn.utils import parametrize

from gradient_check.exam.case import Case, Questions, numbers, rows

questions = Questions("faults")
SERIES, TABLE = rows(3, 6, 4), rows(6, 5)
PICTURES, IDS = rows(2, 3, 8, 8), numbers(12, 3, 6)


class Two(nn.Module):
    """Two layers, whose middle a fault changes."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(5, 8), nn.Linear(8, 3)

    def middle(self, values: Tensor) -> Tensor:
        return values

    def forward(self, table: Tensor) -> Tensor:
        return self.leave(self.middle(self.enter(table)))


@questions.fault("graph-cut", "no-gradient")
def a_compiled_net_detaches() -> Case:
    class Net(Two):
        def middle(self, values: Tensor) -> Tensor:
            return values.detach().tanh()  # fault

    return Case(torch.compile(Net(), backend="eager"), TABLE)  # type: ignore[arg-type]


@questions.fault("graph-cut", "no-gradient")
def a_block_compiled_in_place_reads_data() -> Case:
    class Middle(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return values.data.relu()  # fault

    module = nn.Sequential(nn.Linear(5, 8), Middle(), nn.Linear(8, 3))
    module[1].compile(backend="aot_eager")
    return Case(module, TABLE)


@questions.fault("graph-cut", "no-gradient")
def examples_are_mapped_by_vmap_and_detached() -> Case:
    class Net(Two):
        def middle(self, values: Tensor) -> Tensor:
            return vmap(lambda row: row.detach().sin())(values)  # fault

    return Case(Net(), TABLE)


@questions.fault("graph-cut", "no-gradient", "grad-none")
def a_parametrization_detaches_its_original() -> Case:
    class Positive(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return F.softplus(weight.detach())  # fault

    module = Two()
    parametrize.register_parametrization(module.enter, "weight", Positive())
    return Case(module, TABLE)


@questions.fault("graph-cut", "no-gradient", "grad-none", "stale-forward", "unused")
def a_parametrization_is_cached_for_ever() -> Case:
    kept: dict[str, Tensor] = {}

    class Cached(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            if "weight" not in kept:
                kept["weight"] = weight.exp().detach()
            return kept["weight"]

    module = Two()
    parametrize.register_parametrization(module.leave, "weight", Cached())
    return Case(module, TABLE)


@questions.fault("gradient-wrong", "graph-cut", "no-gradient")
def an_own_weight_norm_takes_the_norm_for_constant() -> Case:
    class Normed(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            with torch.no_grad():  # fault
                norm = weight.norm(dim=1, keepdim=True)
            return weight / norm

    module = Two()
    parametrize.register_parametrization(module.enter, "weight", Normed())
    return Case(module, TABLE)


@questions.fault("gradient-wrong", "graph-cut", "no-gradient")
def weights_are_rounded_without_a_stand_in() -> Case:
    class Net(Two):
        def forward(self, table: Tensor) -> Tensor:
            weight = torch.round(self.enter.weight.detach() * 16) / 16  # fault
            return self.leave(F.linear(table, weight, self.enter.bias))

    return Case(Net(), TABLE)


@questions.fault("graph-cut", "no-gradient", "grad-none")
def functional_call_gets_a_state_dict() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.scale = Two(), nn.Parameter(torch.ones(3))

        def forward(self, table: Tensor) -> Tensor:
            state = self.inner.state_dict()  # fault
            return functional_call(self.inner, state, (table,)) * self.scale

    return Case(Net(), TABLE)


@questions.fault("graph-cut", "no-gradient", "grad-none")
def a_recurrence_starts_from_a_learned_state_as_numpy() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.first = nn.RNN(4, 5, batch_first=True), nn.Parameter(rows(5))

        def forward(self, series: Tensor) -> Tensor:
            state = torch.from_numpy(self.first.detach().numpy())  # fault
            return self.rnn(series, state.expand(1, len(series), 5).contiguous())[0]

    return Case(Net(), SERIES)


@questions.fault("grad-nonfinite")
def a_root_of_a_masked_square() -> Case:
    class Net(Two):
        def middle(self, values: Tensor) -> Tensor:
            squares = values.square() * (torch.arange(8) > 0)
            return torch.sqrt(squares)  # fault

    return Case(Net(), TABLE)
