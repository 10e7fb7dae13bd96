"""Divides the host among the workers: their number, and the device and the cores of each."""

from typing import Literal

from cog_adapt.server.worker.config import Place


def places_of(processes: int | Literal["auto"]) -> list[Place]:
    """Return a place for each worker.

    Args:
        processes: the setting MODEL_PROCESSES.
    """
    number = 1 if processes == "auto" else processes
    return [Place()] if number == 1 else [Place(str(each)) for each in range(number)]
