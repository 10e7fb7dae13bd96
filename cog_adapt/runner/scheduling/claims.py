"""Claims to adaptations: of several processes that are asked for the same one, one runs it.

This module knows no transport: a server injects its claims, and without any each process runs what
it is asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

B = TypeVar("B", covariant=True)


class Claim(Protocol):
    """The claim of this process to one adaptation."""

    @property
    def is_held(self) -> bool:
        """Whether this process may run the adaptation now."""

    @property
    def is_waiting(self) -> bool:
        """Whether another process holds the claim."""

    def release(self) -> None:
        """Give the claim up, or stop waiting for it; any thread may, and more than once."""


class Claims(Protocol):
    """Where this process asks for claims."""

    def ask(self, owner: str, key: str) -> Claim:
        """Ask for the claim to an owner's adaptation; return at once."""


@dataclass(frozen=True)
class Turn(Generic[B]):
    """A run that begins in its turn among all processes.

    Attributes:
        ask: asks for the claim.
        begin: begins the run, given the seconds for which another process held the claim; it may
            read files, so it is called on a thread of its own. None: not yet, it is called again.
        notice: progress that is shown if another process holds the claim.
        patience: seconds after which the run begins without the claim; None: never.
    """

    ask: Callable[[], Claim]
    begin: Callable[[float], B | None]
    notice: Any = None
    patience: float | None = None
