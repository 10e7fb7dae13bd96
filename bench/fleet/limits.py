"""What saturates first as servers are added, and what a million adaptations cost."""

from dataclasses import dataclass

GETS_A_SECOND = 5_500.0
"""Reads of one prefix: Amazon S3's performance guidelines, as published in 2024."""
FIRST_BYTE_SECONDS, BYTES_A_SECOND = 0.1, 85e6
"""Of one read: the same guidelines (100 to 200 ms; 85 to 90 MB/s a request)."""


@dataclass(frozen=True)
class Saturation:
    """How far each part is used.

    Attributes:
        a_second: predictions that one server answers.
        front: share of a core that each server's front process uses.
        database: servers at which the database has no more commits; None: it was not measured.
        store: servers at which reads of the store reach `GETS_A_SECOND`; None: they never do.
        gigabits: of one server's reads from the store, a second.
    """

    a_second: float
    front: float
    database: float | None
    store: float | None
    gigabits: float


def saturation(
    *, a_second: float, front: float, records: float | None, far: float, size: int
) -> Saturation:
    """Compute how far each part is used.

    Args:
        a_second: predictions of one server.
        front: seconds of the front's core for a prediction.
        records: that the database finishes a second.
        far: share of the predictions that read the store.
        size: bytes of an adapter.
    """
    reads = a_second * far
    return Saturation(
        a_second=a_second,
        front=a_second * front,
        database=records / a_second if records else None,
        store=GETS_A_SECOND / reads if reads > 0 else None,
        gigabits=8e-9 * reads * size,
    )


@dataclass(frozen=True)
class Prices:
    """Example prices, in dollars: an operator puts in the ones of their own contract.

    Attributes:
        machine_hour: of the device that adapts, with its host.
        gigabyte_month: kept in the store.
        thousand_writes: to the store.
    """

    machine_hour: float = 1.0
    gigabyte_month: float = 0.02
    thousand_writes: float = 0.005


WRITES = 3  # of an adaptation to the store: tensors, metadata, decision


@dataclass(frozen=True)
class Cost:
    """Dollars of a million adaptations: computing, keeping for a month, writing."""

    computing: float
    keeping: float
    writing: float

    @property
    def all(self) -> float:
        """The sum."""
        return self.computing + self.keeping + self.writing


def cost(seconds: float, busy: float, size: int, prices: Prices) -> Cost:
    """Compute what a million adaptations cost.

    Args:
        seconds: of one adaptation on the device.
        busy: share of the paid time in which the device adapts.
        size: bytes of an adapter.
        prices: dollars.
    """
    return Cost(
        computing=1e6 * seconds / busy / 3600 * prices.machine_hour,
        keeping=1e6 * size / 1e9 * prices.gigabyte_month,
        writing=1e3 * WRITES * prices.thousand_writes,
    )
