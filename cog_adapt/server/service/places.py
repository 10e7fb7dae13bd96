"""Divides the host among the workers: their number, and the device and the cores of each."""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Literal

from cog_adapt.machine import MEMORY_SHARERS, cores
from cog_adapt.server.errors import ConfigError
from cog_adapt.server.service.nvml import Cards
from cog_adapt.server.worker.config import Place

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"
_THREADS = "OMP_NUM_THREADS"
_BY_BUS = "PCI_BUS_ID"  # the order of NVML's numbers, which need not be CUDA's
_NODES = Path("/sys/devices/system/node")
_NUMBERED = re.compile(r"cuda:\d+")
Environment = Mapping[str, str]


def places_of(
    processes: int | Literal["auto"],
    memory_share: float = 1.0,
    environment: Environment = os.environ,
    cards: Cards | None = None,
) -> list[Place]:
    """Return a place for each worker; the only one uses all that the front process may use.

    Args:
        processes: the setting MODEL_PROCESSES.
        memory_share: the setting MEMORY_SHARE, which the workers divide.
        environment: of the front process.
        cards: the driver's; None: NVIDIA's.

    Raises:
        ConfigError: DEVICE names one card for several workers.
    """
    if processes == 1:
        return [Place()]
    cards = cards or Cards()
    devices = find_devices(environment, cards)
    number = max(1, len(devices)) if processes == "auto" else processes
    if number == 1:
        return [Place()]
    if devices and _NUMBERED.fullmatch(named := environment.get("DEVICE", "")):
        raise ConfigError(
            f"DEVICE is {named!r}, and MODEL_PROCESSES starts {number} processes, each with a card "
            "of its own as `cuda`. Set DEVICE=cuda, or MODEL_PROCESSES=1."
        )
    chosen = [devices[i % len(devices)] if devices else None for i in range(number)]
    by_bus = {} if _VISIBLE in environment else {_ORDER: environment.get(_ORDER, _BY_BUS)}
    nodes = [_node(each, {**environment, **by_bus}, cards) for each in chosen]
    sharing = Counter(chosen)
    places = []
    for i, (device, (own, threads)) in enumerate(
        zip(chosen, _cores(nodes, environment), strict=True)
    ):
        variables = {"MEMORY_SHARE": repr(memory_share / sharing[device])}
        if device is not None:  # else the share above is of the memory that all workers share
            variables |= {**by_bus, _VISIBLE: device, MEMORY_SHARERS: str(number)}
        if threads is not None:
            variables[_THREADS] = str(threads)
        places.append(Place(str(i), device, variables, own))
    return places


def find_devices(environment: Environment, cards: Cards) -> list[str]:
    """Return the names of the devices: of CUDA_VISIBLE_DEVICES, else the numbers of the cards."""
    if environment.get("DEVICE") == "cpu":
        return []
    visible = environment.get(_VISIBLE)
    if visible is None:
        return [str(number) for number in range(cards.count())]
    names = (each.strip() for each in visible.split(","))
    return list(takewhile(lambda name: name not in ("", "-1"), names))  # as CUDA reads it


def _node(device: str | None, environment: Environment, cards: Cards) -> int | None:
    """Return the NUMA node of a device; None without a device, or if its number is not NVML's."""
    if device is None or (device.isdecimal() and environment.get(_ORDER) != _BY_BUS):
        return None
    return cards.numa_node(device)


def _cores(
    nodes: Sequence[int | None], environment: Environment
) -> list[tuple[frozenset[int], int | None]]:
    """Divide the cores of this process among workers.

    Args:
        nodes: the NUMA node of each worker's card; None: unknown.
        environment: OMP_NUM_THREADS in it is the operator's choice.

    Returns:
        for each worker its cores (empty: all), and its number of threads, at least 1; None: the
        operator has chosen.
    """
    allowed, most = os.sched_getaffinity(0), cores() // len(nodes)
    workers = Counter(nodes)
    shares: list[tuple[frozenset[int], int | None]] = []
    for node in nodes:
        own = frozenset() if node is None else cores_of_node(node) & allowed
        threads = min(most, len(own) // workers[node]) if own else most
        shares.append((own, None if environment.get(_THREADS) else max(1, threads)))
    return shares


def cores_of_node(node: int, folder: Path = _NODES) -> frozenset[int]:
    """Return the cores of a NUMA node; none if the host does not say."""
    try:
        text = (folder / f"node{node}" / "cpulist").read_text().strip()
        ranges = [part.partition("-") for part in text.split(",") if part]
        return frozenset(
            core for first, _, last in ranges for core in range(int(first), int(last or first) + 1)
        )
    except (OSError, ValueError):
        return frozenset()
