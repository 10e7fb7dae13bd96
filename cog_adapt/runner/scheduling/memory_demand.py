"""What a piece of work says of the memory that it is going to hold, before it takes any."""

from typing import ClassVar, Protocol, runtime_checkable


@runtime_checkable
class MemoryDemand(Protocol):
    """The bytes that work needs at once, and the words about it; `str` says how much.

    Attributes:
        work: what needs them, in words.
        setting: the variable that bounds the bytes.
        remedy: what a caller can do where they are too many.
    """

    work: ClassVar[str]
    setting: ClassVar[str]
    remedy: ClassVar[str]

    @property
    def bytes(self) -> int:
        """Return how many."""
