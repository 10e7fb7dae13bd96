"""The template's predictor and trainer, which also note each run and each gradient step in a log.

The examples of a storm contain `ticket N`, so that the log can name what a step learns. A line is
one of these, with the process and the seconds since the boot:

    begin RUN PROCESS SECONDS
    end RUN PROCESS SECONDS
    step TICKET PROCESS SECONDS LEARNING
"""

import asyncio
import itertools
import os
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

import cog_adapt
import predict
import train
from cog_adapt import Batch
from cog_adapt.server.worker.active import find_active
from task import TextClassification

_TICKET = re.compile(r"ticket (\d+)")
_TAKEN_OVER = re.compile(r"\+\d+/")
_learnings: "WeakKeyDictionary[nn.Module, int]" = WeakKeyDictionary()
_numbers = itertools.count(1)


class NotedClassification(TextClassification):
    """The template's task; a step on a storm's examples appends one line to the log."""

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
            learning = _learnings.setdefault(module, next(_numbers))
            _append("step", ticket, learning)
        return super().loss(module, batch, targets)


def _rows(batch: Batch) -> list[tuple[int, ...]]:
    """Return the tokens of each text, without its padding."""
    lengths = batch["attention_mask"].sum(1).tolist()
    return [
        tuple(row[:length])
        for row, length in zip(batch["input_ids"].tolist(), lengths, strict=True)
    ]


def _append(what: str, name: str, *more: object) -> None:
    """Write one line: one `write` to a file opened with O_APPEND is whole, whoever writes too."""
    fields = (what, name, os.getpid(), f"{time.monotonic():.3f}", *more)
    log = os.open(os.environ["STORM_STEPS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(log, f"{' '.join(map(str, fields))}\n".encode())
    finally:
        os.close(log)


def _noted(work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Return the same work, which notes its begin, and its end unless a kill comes first."""

    async def note(*given: Any) -> Any:  # noqa: ANN401 - whatever the work is given
        active = find_active()
        if active is None:  # the self-test's
            return await work(*given)
        run = _TAKEN_OVER.sub("", active.request.id, count=1)
        _append("begin", run)
        try:
            done = await work(*given)
        except (Exception, asyncio.CancelledError):
            _append("end", run)
            raise
        _append("end", run)
        return done

    return note


for door in (predict, train):
    vars(door)["TextClassification"] = NotedClassification
vars(predict)["answer"] = _noted(cog_adapt.answer)
vars(train)["train"] = _noted(cog_adapt.train)


class Predictor(predict.Predictor):
    """The template's predictor on the noted task."""


class Trainer(train.Trainer):
    """The template's trainer on the noted task."""
