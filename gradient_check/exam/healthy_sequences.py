"""Healthy models of sequences, graphs and tables, and healthy ways to train."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from gradient_check.exam.case import Case, Questions, numbers, rows

questions = Questions("healthy")
SERIES = rows(3, 6, 4)
IDS = numbers(20, 3, 6)
TABLE = rows(6, 5)


@questions.healthy()
def a_bidirectional_lstm_of_packed_rows() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(20, 4, padding_idx=0)
            self.lstm = nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True, dropout=0.2)
            self.out = nn.Linear(12, 2)

        def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
            packed = pack_padded_sequence(
                self.words(ids), lengths, batch_first=True, enforce_sorted=False
            )
            states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
            return self.out(states.mean(1))

    return Case(Net(), (IDS, torch.tensor([6, 4, 5])))


@questions.healthy()
def a_causal_transformer_with_tied_words() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(20, 8), nn.Embedding(6, 8)
            layer = nn.TransformerEncoderLayer(8, 2, 16, 0.1, batch_first=True, norm_first=True)
            self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(8, 20, bias=False)
            self.head.weight = self.words.weight

        def forward(self, ids: Tensor) -> Tensor:
            mask = nn.Transformer.generate_square_subsequent_mask(6)
            return self.head(self.body(self.words(ids) + self.places.weight, mask))

    def loss(module: nn.Module, ids: Tensor) -> Tensor:
        logits = module(ids)[:, :-1]
        return F.cross_entropy(logits.mT, ids[:, 1:], reduction="none").mean(1)

    return Case(Net(), IDS, loss)


@questions.healthy()
def an_encoder_and_a_decoder() -> Case:
    net = nn.Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True)
    return Case(net, (rows(2, 5, 8), rows(2, 4, 8, seed=2)))


@questions.healthy()
def linear_attention_by_einsum() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts, self.out = nn.Linear(4, 24), nn.Linear(8, 2)

        def forward(self, series: Tensor) -> Tensor:
            query, key, value = self.parts(series).chunk(3, -1)
            query, key = F.elu(query) + 1, F.elu(key) + 1
            state = torch.einsum("btk,btv->btkv", key, value).cumsum(1)
            weight = torch.einsum("btk,btk->bt", query, key.cumsum(1))
            return self.out(torch.einsum("btk,btkv->btv", query, state) / weight[..., None])

    return Case(Net(), SERIES)


@questions.healthy()
def a_state_space_with_a_scan() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rate, self.enter = nn.Parameter(rows(8)), nn.Linear(4, 8)
            self.out = nn.Linear(8, 2)

        def forward(self, series: Tensor) -> Tensor:
            decay, state, outputs = torch.exp(-F.softplus(self.rate)), torch.zeros(3, 8), []
            for step in self.enter(series).unbind(1):
                state = decay * state + step
                outputs.append(state)
            return self.out(torch.stack(outputs, 1))

    return Case(Net(), SERIES)


@questions.healthy()
def a_mixture_of_experts_with_dense_gates() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(4, 3)
            self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

        def forward(self, series: Tensor) -> Tensor:
            shares = self.router(series).softmax(-1)
            outputs = torch.stack([expert(series) for expert in self.experts], -1)
            return (outputs * shares[..., None, :]).sum(-1)

    return Case(Net(), SERIES)


@questions.healthy("unreached", "rough")
def a_mixture_of_the_two_best_experts() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(4, 4)
            self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

        def forward(self, series: Tensor) -> Tensor:
            flat = series.flatten(0, 1)
            weights, chosen = self.router(flat).softmax(-1).topk(2, -1)
            output = torch.zeros_like(flat)
            for number, expert in enumerate(self.experts):
                rows_, place = (chosen == number).nonzero(as_tuple=True)
                output.index_add_(0, rows_, expert(flat[rows_]) * weights[rows_, place, None])
            return output.view_as(series)

    return Case(Net(), SERIES)


@questions.healthy()
def a_chain_of_labels() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score, self.step = nn.Linear(4, 3), nn.Parameter(rows(3, 3))

        def forward(self, series: Tensor) -> Tensor:
            scores = self.score(series)
            total = scores[:, 0]
            for step in scores[:, 1:].unbind(1):
                total = torch.logsumexp(total[:, :, None] + self.step, 1) + step
            return torch.logsumexp(total, 1) - scores[:, :, 0].sum(1) - 5 * self.step[0, 0]

    return Case(Net(), SERIES, lambda losses: losses)


@questions.healthy()
def connectionist_temporal_classification() -> Case:
    def loss(logits: Tensor) -> Tensor:
        logs, lengths = logits.log_softmax(-1).transpose(0, 1), torch.tensor([6, 6, 6])
        targets = torch.tensor([[1, 2], [2, 1], [3, 3]])
        return F.ctc_loss(logs, targets, lengths, torch.tensor([2, 2, 2]), reduction="none")

    return Case(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 5)), SERIES, loss)
