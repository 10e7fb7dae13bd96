"""The template's predictor and trainer, which also note each gradient step in a log.

The examples of a storm contain `ticket N`, so that the log of steps can name what a step learns.
"""

import os
import re
import time
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

import predict
import train
from cog_adapt import Batch
from task import TextClassification

_TICKET = re.compile(r"ticket (\d+)")


class NotedClassification(TextClassification):
    """The template's task; a step on a storm's examples appends one line to the log of steps.

    A line is the ticket, the process, and the seconds since the boot. One `write` to a file opened
    with O_APPEND is whole, whichever processes write.
    """

    _tickets: dict[tuple[int, ...], str]

    def encode(self, inputs: Sequence[Any]) -> Batch:
        """Return the template's tokens, and remember which of them are of which ticket."""
        batch = super().encode(inputs)
        for text, tokens in zip(inputs, _rows(batch), strict=True):
            if found := _TICKET.search(text):
                self.__dict__.setdefault("_tickets", {})[tokens] = found[1]
        return batch

    def loss(self, module: nn.Module, batch: Batch, targets: Tensor) -> Tensor:
        """Return the template's loss, and note the step."""
        ticket = self.__dict__.get("_tickets", {}).get(_rows(batch)[0])
        if ticket is not None and targets.numel() and module.training:
            _append(f"{ticket} {os.getpid()} {time.monotonic():.3f}\n")
        return super().loss(module, batch, targets)


def _rows(batch: Batch) -> list[tuple[int, ...]]:
    """Return the tokens of each text, without its padding."""
    lengths = batch["attention_mask"].sum(1).tolist()
    return [
        tuple(row[:length])
        for row, length in zip(batch["input_ids"].tolist(), lengths, strict=True)
    ]


def _append(line: str) -> None:
    log = os.open(os.environ["STORM_STEPS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(log, line.encode())
    finally:
        os.close(log)


for door in (predict, train):
    vars(door)["TextClassification"] = NotedClassification


class Predictor(predict.Predictor):
    """The template's predictor on the noted task."""


class Trainer(train.Trainer):
    """The template's trainer on the noted task."""
