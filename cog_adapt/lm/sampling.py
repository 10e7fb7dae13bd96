"""Chooses the next token with transformers' own processors and a request's own seed."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from cog_adapt.runner.data.row import brief
from cog_adapt.runner.errors import InputError

_MOST_STOPS, _MOST_STOP_CHARACTERS = 16, 200
_LARGEST_SEED = 2**63
# logits divided by less overflow, and this cold always draws the likeliest token
_LEAST_TEMPERATURE = 1e-3
_WHOLE = ("max_tokens", "top_k", "seed")
_NUMBERS = (*_WHOLE, "temperature", "top_p", "repetition_penalty")


@dataclass(frozen=True)
class TextOptions:
    """A request's options for its answer.

    Attributes:
        max_tokens: of the answer.
        temperature: 0: the likeliest token is taken.
        top_p: draw from the likeliest tokens with this share of the probability.
        top_k: draw from this number of likeliest tokens; 0: all.
        repetition_penalty: makes earlier tokens less likely; 1: has no effect.
        stop: texts that end the answer, without being a part of it.
        seed: of the draws; None: a new one each time.

    Raises:
        InputError: a value is outside its bounds.
    """

    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int | None = None

    def __post_init__(self) -> None:
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        object.__setattr__(self, "stop", stop)
        for name in _NUMBERS:
            value = getattr(self, name)
            if not _is_number(value, whole=name in _WHOLE) and (name, value) != ("seed", None):
                kind = "whole number" if name in _WHOLE else "number"
                raise InputError(f"`{name}` is {brief(value)}; it must be a {kind}.")
        allowed = {
            "max_tokens": (self.max_tokens >= 1, "a whole number from 1"),
            "temperature": (0 <= self.temperature < math.inf, "a number from 0"),
            "top_p": (0 < self.top_p <= 1, "above 0, at most 1"),
            "top_k": (self.top_k >= 0, "a whole number from 0"),
            "repetition_penalty": (0 < self.repetition_penalty < math.inf, "above 0"),
            "stop": (_are_stops(self.stop), "at most 16 texts of 1 to 200 characters"),
            "seed": (0 <= (self.seed or 0) < _LARGEST_SEED, "from 0 to 2^63 - 1"),
        }
        for name, (fits, words) in allowed.items():
            if not fits:
                raise InputError(f"`{name}` is {brief(getattr(self, name))}; allowed: {words}.")


class Sampler:
    """Chooses the tokens of one answer."""

    def __init__(self, options: TextOptions) -> None:
        self._draws = options.temperature > 0
        self._processors = processors(options)
        self._generator = torch.Generator()
        if options.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(options.seed)

    def choose(self, before: list[int], logits: Tensor) -> int:
        """Choose a token by its logits (V,), given the earlier tokens."""
        row = logits.float().cpu().unsqueeze(0)
        if self._processors:
            row = self._processors(torch.tensor([before]), row)
        if not self._draws:
            return int(row.argmax())
        return int(torch.multinomial(row.softmax(-1), 1, generator=self._generator))


def processors(options: TextOptions) -> LogitsProcessorList:
    """Return the processors in the order that `transformers.generate` has."""
    found = LogitsProcessorList()
    if options.repetition_penalty != 1:
        found.append(RepetitionPenaltyLogitsProcessor(float(options.repetition_penalty)))
    if options.temperature > 0:
        found.append(TemperatureLogitsWarper(max(options.temperature, _LEAST_TEMPERATURE)))
        if options.top_k:
            found.append(TopKLogitsWarper(options.top_k))
        if options.top_p < 1:
            found.append(TopPLogitsWarper(float(options.top_p)))
    return found


def _is_number(value: object, *, whole: bool) -> bool:
    return isinstance(value, int if whole else int | float) and not isinstance(value, bool)


def _are_stops(stops: tuple[str, ...]) -> bool:
    fits = all(isinstance(s, str) and 1 <= len(s) <= _MOST_STOP_CHARACTERS for s in stops)
    return fits and len(stops) <= _MOST_STOPS
