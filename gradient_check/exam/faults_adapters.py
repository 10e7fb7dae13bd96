"""Faults of adapters, prompts and tied weights."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gradient_check.exam.case import Case, Questions, rows
from gradient_check.exam.faults_attention import IDS, TOKENS, Block

questions = Questions("faults")


@questions.fault("gradient-wrong")
def a_tied_decoder_takes_the_data_of_the_embedding() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.block = nn.Embedding(30, 8), Block()

        def forward(self, ids: Tensor) -> Tensor:
            return F.linear(self.block(self.words(ids)), self.words.weight.data)  # fault

    return Case(Net(), IDS)


@questions.fault("graph-cut")
def a_reentrant_checkpoint_over_frozen_words() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.block, self.out = nn.Embedding(30, 8), Block(), nn.Linear(8, 2)
            self.words.requires_grad_(False)

        def forward(self, ids: Tensor) -> Tensor:
            tokens = checkpoint(self.block, self.words(ids), use_reentrant=True)  # fault
            return self.out(tokens)

    return Case(Net(), IDS, options={"trainable": "block|out"})


@questions.fault("graph-cut")
def a_prefix_is_concatenated_as_data() -> Case:
    class Net(Block):
        def __init__(self) -> None:
            super().__init__()
            self.prefix = nn.Parameter(rows(2, 8))

        def forward(self, tokens: Tensor) -> Tensor:
            prefix = self.prefix.data.expand(len(tokens), -1, -1)  # fault
            return super().forward(torch.cat((prefix, tokens), 1))[:, 2:]

    return Case(Net(), TOKENS)


@questions.fault("unregistered")
def prompts_are_parameters_in_a_dict() -> Case:
    class Net(Block):
        def __init__(self) -> None:
            super().__init__()
            self.prompts = {"first": nn.Parameter(rows(1, 8))}

        def forward(self, tokens: Tensor) -> Tensor:
            return super().forward(tokens + self.prompts["first"])

    return Case(Net(), TOKENS)


@questions.fault("graph-cut")
def a_low_rank_change_is_merged_without_grad() -> Case:
    class Adapted(nn.Linear):
        def __init__(self) -> None:
            super().__init__(8, 8)
            self.down, self.up = nn.Parameter(rows(2, 8)), nn.Parameter(torch.zeros(8, 2))

        def forward(self, tokens: Tensor) -> Tensor:
            with torch.no_grad():  # the fault
                merged = self.weight + self.up @ self.down  # fault
            return F.linear(tokens, merged, self.bias)

    class Net(Block):
        def __init__(self) -> None:
            super().__init__()
            self.value = Adapted()

    return Case(Net(), TOKENS, options={"trainable": "down|up|norm"})


@questions.fault("graph-cut", "unused")
def an_adapter_is_merged_into_the_weights_data() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base, self.out = nn.Linear(8, 8), nn.Linear(8, 2)
            self.scale = nn.Parameter(torch.ones(8, 1))
            self.register_buffer("kept", self.base.weight.detach().clone())

        def forward(self, tokens: Tensor) -> Tensor:
            self.base.weight.data = self.kept * self.scale  # fault
            return self.out(self.base(tokens))

    return Case(Net(), TOKENS)
