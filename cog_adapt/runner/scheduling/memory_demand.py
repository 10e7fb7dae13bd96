"""The memory that a piece of work is going to hold, stated before it takes any."""

from typing import ClassVar, Protocol, runtime_checkable


@runtime_checkable
class MemoryDemand(Protocol):
    """The bytes that work needs at once, with words for messages; `str` gives the size.

    Attributes:
        work: a description of the work.
        setting: the variable that bounds the bytes.
        remedy: a caller's way to need fewer bytes.
    """

    work: ClassVar[str]
    setting: ClassVar[str]
    remedy: ClassVar[str]

    @property
    def bytes(self) -> int:
        """Return the number of bytes."""
