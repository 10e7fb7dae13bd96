"""One growing answer of a language model: its tokens, its text and its cache."""

from collections.abc import Collection
from typing import Any

from tokenizers import Tokenizer
from torch import Tensor

from cog_adapt.lm.growing_text import GrowingText
from cog_adapt.lm.key_values import KeyValues
from cog_adapt.lm.sampling import Sampler, TextOptions
from cog_adapt.runner.inference.growing import Generation


class TextGeneration(Generation):
    """A text that grows by a token at a time.

    Args:
        prompt: its tokens, at least one.
        options: the request's.
        tokenizer: of the answer.
        ends: tokens that end an answer.
        token_bytes: of a token's keys and values.

    Attributes:
        cache: keys and values of the tokens that the model has read.
    """

    def __init__(
        self,
        prompt: list[int],
        options: TextOptions,
        tokenizer: Tokenizer,
        ends: Collection[int],
        token_bytes: int,
    ) -> None:
        capacity = len(prompt) + options.max_tokens
        self.nbytes = capacity * token_bytes
        self.joins = self.done = False
        self.cache = KeyValues(capacity)
        self._prompt = prompt
        self._most = options.max_tokens
        self._sampler = Sampler(options)
        self._text = GrowingText(tokenizer, options.stop)
        self._ends = ends
        self._tokens: list[int] = []
        self._reading = 0
        self._reason = ""

    def next_tokens(self, most: int) -> list[int]:
        """Return the next forward's tokens: at most `most` of the prompt, else the last one."""
        if self._tokens:
            return self._tokens[-1:]
        first = self.cache.length
        self._reading = min(most, len(self._prompt) - first)
        return self._prompt[first : first + self._reading]

    def accept(self, logits: Tensor) -> None:
        """Choose the next token by the forward's logits for the last token, shape (V,)."""
        self.cache.length += 1 if self._tokens else self._reading
        if self.cache.length < len(self._prompt):
            return
        self.joins = True
        token = self._sampler.choose(self._prompt + self._tokens, logits)
        self._tokens.append(token)
        if token in self._ends:
            self._end("stop")
            return
        self._text.add(token)
        if self._text.stopped:
            self._end("stop")
        elif len(self._tokens) == self._most:
            self._end("length")

    def taken(self) -> str | None:
        """Take the text that has come since the last call."""
        return self._text.taken()

    def facts(self) -> dict[str, Any]:
        """Return the numbers of tokens read and made, and the reason for the answer's end."""
        return {
            "prompt_tokens": len(self._prompt),
            "completion_tokens": len(self._tokens),
            "finish_reason": self._reason,
        }

    def close(self) -> None:
        """Release the cache."""
        self.cache.clear()

    def _end(self, reason: str) -> None:
        self._text.end()
        self.done = True
        self._reason = reason
