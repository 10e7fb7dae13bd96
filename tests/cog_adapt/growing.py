"""A small real model whose answers grow a letter at a time, for tests of the runner."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.inference.growing import Generation, GenerativeTask
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.modules.adapters import Adapter
from gradient_check.phases.randomness import generator
from gradient_check.tests.models import seeded_module

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WIDTH = 16


class Speller(nn.Module):
    """What was read so far, and the last letter, give the next."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, len(LETTERS))
        self.rows: list[int] = []

    def forward(self, state, letters):
        """Map (N, WIDTH) and (N,) to logits (N, letters) and the next state."""
        self.rows.append(len(letters))
        state = torch.tanh(self.mix(state + self.embedding(letters)))
        return self.out(state) * 4, state


@dataclass(frozen=True)
class Length:
    letters: int = 6


class Word(Generation):
    def __init__(self, read, options):
        self.asked = read
        self.read, self.most, self.made, self.sent = list(read), options.letters, "", 0
        self.state, self.next_state = torch.zeros(WIDTH), None
        self.nbytes = 100 * options.letters
        self.closed = 0

    def look(self):
        self.joins, self.done = not self.read, len(self.made) == self.most

    def taken(self):
        piece, self.sent = self.made[self.sent :], len(self.made)
        return piece or None

    def facts(self):
        return {"letters": len(self.made)}

    def close(self):
        self.closed += 1


class Spelling(GenerativeTask):
    """Inputs are words; the answer goes on with so many letters. 'X' in one spoils its row."""

    lora_targets = "mix|out"
    options = Length()
    shares_forwards = True

    def __init__(self):
        self.begun = []

    def load(self):
        return seeded_module(Speller)

    def encode(self, inputs):
        return {"letters": torch.tensor([LETTERS.index(word[-1]) for word in inputs])}

    def loss(self, module, batch, targets):
        logits, _ = module(torch.zeros(len(targets), WIDTH), batch["letters"])
        return F.cross_entropy(logits, targets.long(), reduction="none")

    def predict(self, module, batch, labels, options):
        return module(torch.zeros(len(batch["letters"]), WIDTH), batch["letters"])[0].tolist()

    def probe(self):
        return [Example("ab", 1.0), Example("cd", 2.0)]

    def begin(self, input, options):
        if not input:
            raise InputError("the word is empty. Send a letter.")
        self.begun.append(Word(input, options))
        return self.begun[-1]

    def next_logits(self, module, generations):
        letters = [(each.read or each.made)[0 if each.read else -1] for each in generations]
        places = torch.tensor([LETTERS.index(letter.lower()) for letter in letters])
        logits, states = module(torch.stack([each.state for each in generations]), places)
        for each, state in zip(generations, states, strict=True):
            each.next_state = state.clone()
        return logits

    def accept(self, generation, logits):
        if generation.read[:1] == ["X"]:
            raise InputError("this word cannot be gone on with.")
        generation.state = generation.next_state
        if generation.read:
            generation.read.pop(0)
        if not generation.read:
            generation.made += LETTERS[int(logits.argmax())]
        generation.look()


def loaded(**settings):
    return LoadedModel(Spelling(), RunnerSettings(device="cpu", **settings))


def adapter(model, number, names=("mix", "out"), rank=4):
    """An adapter of random pairs."""
    draw, tensors = generator(number, "adapter"), {}
    for name in names:
        layer = model.base.template.get_submodule(name)
        out, width = layer.weight.shape
        tensors[f"{name}.lora_a"] = torch.randn(rank, width, generator=draw)
        tensors[f"{name}.lora_b"] = torch.randn(out, rank, generator=draw) * 0.3
    return Adapter(tensors, (), "lora", model.base.digest, {})
