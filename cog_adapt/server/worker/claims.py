"""The claims of this process to adaptations, which the front process grants one after the other."""

from collections.abc import Callable
from itertools import count
from weakref import WeakValueDictionary

from cog_adapt.server.adapter_messages import Claim, Claimed, Unclaim


class WorkerClaim:
    """The claim of this process to one adaptation; dropping the claim releases it.

    Attributes:
        is_held: whether this process may run the adaptation now.
        is_waiting: whether another process holds the claim.
    """

    def __init__(self, release: Callable[[], None]) -> None:
        self.is_held = False
        self.is_waiting = False
        self._release = release
        self._is_released = False

    def answer(self, *, is_held: bool) -> None:
        """Accept the front process's answer."""
        self.is_held, self.is_waiting = is_held, not is_held

    def release(self) -> None:
        """Give the claim up, or stop waiting for it."""
        if not self._is_released:
            self._is_released = True
            self._release()

    def __del__(self) -> None:
        self.release()


class WorkerClaims:
    """Asks the front process for claims; usable on any thread.

    Args:
        send: sends a message to the front process.
    """

    def __init__(self, send: Callable[[Claim | Unclaim], None]) -> None:
        self._send = send
        self._numbers = count(1)
        self._open: WeakValueDictionary[int, WorkerClaim] = WeakValueDictionary()

    def ask(self, owner: str, key: str) -> WorkerClaim:
        """Ask for the claim to an owner's adaptation; return at once."""
        number = next(self._numbers)
        claim = self._open[number] = WorkerClaim(lambda: self._send(Unclaim(number)))
        self._send(Claim(number, owner, key))
        return claim

    def on_answer(self, message: Claimed) -> None:
        """Pass an answer on to its claim, unless the claim was dropped."""
        claim = self._open.get(message.number)
        if claim is not None:
            claim.answer(is_held=message.is_held)
