"""The text of a growing answer: whole characters only, and no part of a stop string."""

from collections.abc import Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream


class GrowingText:
    """An answer's text, taken in pieces as they become certain.

    The possible beginning of a stop string is held back until the following tokens decide.

    Attributes:
        stopped: whether a stop string has come, which is cut off.
    """

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)
        self._stops = stops
        self._certain = ""
        self._held = ""
        self.stopped = False

    def add(self, token: int) -> None:
        """Add a token; a character of several tokens comes with the last of them."""
        self._held += self._stream.step(self._tokenizer, token) or ""
        found = [place for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if found:
            self._certain = self._certain + self._held[: min(found)]
            self._held = ""
            self.stopped = True
            return
        certain = len(self._held) - _begun(self._held, self._stops)
        self._certain += self._held[:certain]
        self._held = self._held[certain:]

    def end(self) -> None:
        """End the text: a held-back part is text."""
        self._certain = self._certain + self._held
        self._held = ""

    def taken(self) -> str | None:
        """Take the text that can no longer begin a stop string; None without such text."""
        taken, self._certain = self._certain, ""
        return taken or None


def _begun(text: str, stops: Sequence[str]) -> int:
    """Return the number of last characters that may begin a stop string."""
    longest = max((len(stop) for stop in stops), default=1) - 1
    ends = (text[-length:] for length in range(min(longest, len(text)), 0, -1))
    return next((len(end) for end in ends if any(stop.startswith(end) for stop in stops)), 0)
