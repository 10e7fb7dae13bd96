"""Healthy models behind what PyTorch wraps around modules: parametrizations, compilers, formats."""

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune, rnn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint_sequential

from gradient_check.exam.case import Case, Questions, numbers, off_target, rows

questions = Questions("healthy")
SERIES, TABLE = rows(3, 6, 4), rows(6, 5)
PICTURES, IDS = rows(2, 3, 8, 8), numbers(12, 3, 6)


def net() -> nn.Sequential:
    """Return two layers."""
    return nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 3))


def first(output: Any) -> Tensor:
    """Return a loss of the first output."""
    return off_target(output[0])


@questions.healthy()
def a_recurrent_net_of_two_directions() -> Case:
    return Case(nn.RNN(4, 5, 2, nonlinearity="relu", bidirectional=True, batch_first=True), SERIES,
                first)  # fmt: skip


@questions.healthy()
def a_projected_lstm_with_dropout() -> Case:
    return Case(nn.LSTM(4, 8, 2, dropout=0.3, proj_size=3, batch_first=True), SERIES, first)


@questions.healthy()
def packed_words_through_a_gru() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.gru = nn.Embedding(12, 4, padding_idx=0), nn.GRU(4, 5)

        def forward(self, ids: Tensor) -> Tensor:
            lengths = torch.tensor([6, 4, 2])
            packed = rnn.pack_padded_sequence(self.words(ids), lengths, batch_first=True)
            return self.gru(packed)[1][0]

    return Case(Net(), IDS)


@questions.healthy()
def a_sparse_embedding_with_its_own_optimizer() -> Case:
    def make(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SparseAdam(list(parameters), lr=0.01)

    module = nn.Sequential(nn.Embedding(12, 4, sparse=True), nn.Flatten())
    return Case(module, IDS, options={"make_optimizer": make})


@questions.healthy()
def complex_weights_of_a_spectral_layer() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.complex(rows(4, 4, 3), rows(4, 4, 3, seed=2)) * 0.3)
            self.skip = nn.Linear(4, 4)

        def forward(self, series: Tensor) -> Tensor:
            spectrum = torch.fft.rfft(series, dim=1)[:, :3]
            mixed = torch.einsum("bfi,iof->bfo", spectrum, self.weight)
            return torch.fft.irfft(mixed, n=6, dim=1) + self.skip(series)

    return Case(Net(), SERIES)


@questions.healthy()
def convolutions_in_channels_last() -> Case:
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.SiLU(), nn.Conv2d(8, 4, 3), nn.Flatten()
    )
    return Case(module.to(memory_format=torch.channels_last),  # type: ignore[call-overload]
                PICTURES.to(memory_format=torch.channels_last))  # fmt: skip


@questions.healthy()
def a_module_compiled_for_eager() -> Case:
    return Case(torch.compile(net(), backend="eager"), TABLE)  # type: ignore[arg-type]


@questions.healthy()
def a_method_compiled_by_aot() -> Case:
    module = net()
    module.compile(backend="aot_eager")
    return Case(module, TABLE)


@questions.healthy()
def weight_norm_over_convolutions() -> Case:
    layers = [parametrizations.weight_norm(nn.Conv1d(4, 4, 3, padding=1)) for _ in range(3)]
    return Case(nn.Sequential(*layers), SERIES.transpose(1, 2))


@questions.healthy()
def spectral_norm_by_parametrization() -> Case:
    module = net()
    parametrizations.spectral_norm(module[0])
    return Case(module, TABLE)


@questions.healthy("stop-gradient")
def spectral_norm_of_old() -> Case:
    module = net()
    nn.utils.spectral_norm(module[0])
    return Case(module, TABLE)


@questions.healthy()
def orthogonal_recurrence() -> Case:
    cell = nn.RNN(4, 4, batch_first=True)
    parametrizations.orthogonal(cell, "weight_hh_l0")
    return Case(cell, SERIES, first)


@questions.healthy()
def pruned_weights() -> Case:
    module = net()
    prune.l1_unstructured(module[0], "weight", amount=0.3)  # type: ignore[no-untyped-call]
    return Case(module, TABLE)


@questions.healthy()
def an_ensemble_by_vmap() -> Case:
    class Ensemble(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            members = [net() for _ in range(3)]
            parameters, _ = stack_module_state(members)
            self.stacked = nn.ParameterDict(
                {name.replace(".", "_"): nn.Parameter(p.detach()) for name, p in parameters.items()}
            )
            self.names = {name.replace(".", "_"): name for name in parameters}
            self._shell = [copy.deepcopy(members[0]).to("meta")]

        def forward(self, table: Tensor) -> Tensor:
            def one(values: dict[str, Tensor]) -> Tensor:
                return functional_call(self._shell[0], values, (table,))

            return vmap(one)({self.names[k]: v for k, v in self.stacked.items()}).mean(0)

    return Case(Ensemble(), TABLE)


@questions.healthy()
def a_sequence_of_checkpoints() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*(nn.Linear(5, 5) for _ in range(4)))

        def forward(self, table: Tensor) -> Tensor:
            return checkpoint_sequential(self.layers, 2, table, use_reentrant=False)

    return Case(Net(), TABLE)


@questions.healthy()
def a_teacher_by_average() -> Case:
    class Student(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()
            self.teacher = AveragedModel(self.net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
            self.teacher.requires_grad_(False)

        def forward(self, table: Tensor) -> Tensor:
            with torch.no_grad():
                target = self.teacher(table)
            return off_target(self.net(table)) + (self.net(table) - target).square().mean(1)

    return Case(Student(), TABLE, lambda losses: losses,
                {"trainable": r"^net\."})  # fmt: skip


@questions.healthy()
def attention_with_masks_and_its_fast_path() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=False)
            self.encoder = nn.TransformerEncoder(layer, 2)

        def forward(self, series: Tensor) -> Tensor:
            padded = torch.tensor([[False] * 6, [False] * 4 + [True] * 2, [False] * 5 + [True]])
            states = self.encoder(series, src_key_padding_mask=padded)
            return (states * ~padded[..., None]).sum(1)

    return Case(Net(), SERIES)


@questions.healthy()
def a_softmax_of_many_words_by_clusters() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.states, self.words = (
                nn.Linear(5, 16),
                nn.AdaptiveLogSoftmaxWithLoss(16, 12, [4, 8]),
            )

        def forward(self, table: Tensor) -> Tensor:
            return -self.words(self.states(table), torch.tensor([0, 5, 9, 11, 4, 2])).output

    return Case(Net(), TABLE, lambda losses: losses)


@questions.healthy()
def a_bag_of_weighted_words() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(12, 4, mode="sum")
            self.weights, self.both = nn.Embedding(12, 1), nn.Bilinear(4, 4, 2)

        def forward(self, ids: Tensor) -> Tensor:
            pooled = self.bag(ids, per_sample_weights=self.weights(ids)[..., 0])
            return self.both(pooled, F.normalize(pooled, dim=-1))

    return Case(Net(), IDS)


@questions.healthy()
def layers_that_were_lazy() -> Case:
    module = nn.Sequential(
        nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2)
    )
    module(PICTURES)
    return Case(module, PICTURES)
