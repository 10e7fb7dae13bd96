"""Faults of recurrent models, and of embeddings."""

import functools

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_check.exam.case import Case, Questions, numbers, rows

questions = Questions("faults")
SERIES = rows(3, 5, 4)
IDS = numbers(20, 3, 6)


@questions.fault("gradient-wrong")
def the_hidden_state_is_truncated_at_each_step() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = nn.GRUCell(4, 6), nn.Linear(6, 2)

        def forward(self, series: Tensor) -> Tensor:
            state = series.new_zeros(len(series), 6)
            for step in series.unbind(1):
                state = self.cell(step, state.detach())  # fault
            return self.out(state)

    return Case(Net(), SERIES)


@questions.fault("backward", "stale-forward")
def the_state_is_kept_between_batches() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.out = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 2)
            self.state = None

        def forward(self, series: Tensor) -> Tensor:
            states, self.state = self.lstm(series, self.state)  # fault
            return self.out(states[:, -1])

    return Case(Net(), SERIES)


@questions.fault("train-forward")
def the_first_state_is_made_in_inference_mode() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.rnn = nn.Linear(4, 6), nn.GRU(4, 6, batch_first=True)

        @torch.inference_mode()  # the fault
        def begin(self, series: Tensor) -> Tensor:
            return self.first(series.mean(1))[None]

        def forward(self, series: Tensor) -> Tensor:
            return self.rnn(series, self.begin(series))[0][:, -1]

    return Case(Net(), SERIES)


@questions.fault("graph-cut")
def words_are_looked_up_in_data() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.rnn = nn.Embedding(20, 4), nn.RNN(4, 6, batch_first=True)

        def forward(self, ids: Tensor) -> Tensor:
            words = self.words.weight.data[ids]  # fault
            return self.rnn(words)[0][:, -1]

    return Case(Net(), IDS)


@questions.fault("graph-cut")
def a_gate_is_a_comparison() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.change = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, series: Tensor) -> Tensor:
            is_open = (self.gate(series) > 0).float()  # fault
            return is_open * self.change(series) + (1 - is_open) * series

    return Case(Net(), SERIES)


@questions.fault("gradient-wrong")
def a_norm_of_the_state_is_a_number() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.RNNCell(4, 6)

        def forward(self, series: Tensor) -> Tensor:
            state = series.new_zeros(len(series), 6)
            for step in series.unbind(1):
                state = self.cell(step, state)
                state = state / float(state.norm())  # fault
            return state

    return Case(Net(), SERIES)


@questions.fault("graph-cut")
def a_memory_is_written_without_grad() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.key, self.value, self.query = (nn.Linear(4, 4, bias=False) for _ in range(3))

        def forward(self, series: Tensor) -> Tensor:
            memory = series.new_zeros(len(series), 4, 4)
            for step in series.unbind(1):
                with torch.no_grad():  # the fault
                    memory = (
                        memory + self.key(step)[:, :, None] * self.value(step)[:, None]
                    )  # fault
            return (self.query(series[:, -1])[:, None] @ memory)[:, 0]

    return Case(Net(), SERIES)


@questions.fault("backward", "stale-forward")
def an_encoding_is_kept_by_lru_cache() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.places, self.out = nn.Embedding(8, 4), nn.Linear(4, 2)

        @functools.lru_cache  # noqa: B019 - the fault
        def encoded(self, length: int) -> Tensor:
            return self.places(torch.arange(length)).tanh()  # fault

        def forward(self, series: Tensor) -> Tensor:
            return self.out(series + self.encoded(series.shape[1])).mean(1)

    return Case(Net(), SERIES)


@questions.fault("graph-cut", "gradient-wrong")
def a_cell_is_overwritten_through_data() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.update, self.out = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, series: Tensor) -> Tensor:
            cell = torch.zeros(len(series), 4)
            for step in series.unbind(1):
                cell.data.add_(self.update(step).tanh())  # fault
            return self.out(cell)

    return Case(Net(), SERIES)


@questions.fault("optimizer")
def a_sparse_embedding_with_a_dense_optimizer() -> Case:
    net = nn.Sequential(nn.Embedding(20, 4, sparse=True), nn.Flatten(), nn.Linear(24, 2))
    return Case(net, IDS)


@questions.fault("train-forward")
def a_row_of_the_table_is_reset_in_forward() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = nn.Parameter(rows(20, 4)), nn.Linear(4, 2)

        def forward(self, ids: Tensor) -> Tensor:
            self.table[0] = 0.0  # fault
            return self.out(self.table[ids].mean(1))

    return Case(Net(), IDS)


@questions.fault("graph-cut")
def pooled_states_are_stacked_as_new_tensors() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.out = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 2)

        def forward(self, series: Tensor) -> Tensor:
            last = [torch.tensor(s[-1].tolist()) for s in self.rnn(series)[0]]  # fault
            return self.out(torch.stack(last))

    return Case(Net(), SERIES)


@questions.fault("gradient-wrong")
def scheduled_sampling_reads_its_own_output_as_data() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = nn.GRUCell(4, 6), nn.Linear(6, 4)

        def forward(self, series: Tensor) -> Tensor:
            state, word, outputs = series.new_zeros(len(series), 6), series[:, 0], []
            for _ in range(4):
                state = self.cell(word, state)
                outputs.append(self.out(state))
                word = outputs[-1].clone().data  # fault
            return torch.stack(outputs, 1)

    return Case(Net(), SERIES)


@questions.fault("graph-cut")
def a_learned_decay_is_read_as_a_float() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.decay, self.out = nn.Parameter(torch.tensor(0.7)), nn.Linear(4, 2)

        def forward(self, series: Tensor) -> Tensor:
            decay = float(self.decay)  # fault
            kept = [decay ** (4 - place) for place in range(5)]
            return self.out((series * torch.tensor(kept)[:, None]).sum(1))

    return Case(Net(), SERIES)


@questions.fault("thread-mode")
def grad_is_switched_off_for_an_encoder_and_never_on() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.out = nn.Linear(4, 6), nn.Linear(6, 2)

        def forward(self, series: Tensor) -> Tensor:
            torch.set_grad_enabled(False)  # fault
            states = F.relu(self.encoder(series.mean(1)))
            return self.out(states)

    return Case(Net(), SERIES)
