"""Asks NVIDIA's driver about its cards, by ctypes: the front process imports no torch."""

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
_SYSFS = Path("/sys/bus/pci/devices")
_BUS_ID_BYTES = 32
_LEGACY_BUS_ID_BYTES = 16


class _PciInfo(ctypes.Structure):
    """`nvmlPciInfo_t` of NVML's version 3."""

    _fields_ = (
        ("bus_id_legacy", ctypes.c_char * _LEGACY_BUS_ID_BYTES),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("device_id", ctypes.c_uint),
        ("subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * _BUS_ID_BYTES),
    )


class NvmlError(Exception):
    """The driver has refused a call; the number is NVML's."""


class Cards:
    """The cards of NVIDIA's driver.

    Args:
        library: of the driver.
        sysfs: the folder of the PCI devices.
    """

    def __init__(self, library: str = _LIBRARY, sysfs: Path = _SYSFS) -> None:
        self._library = library
        self._sysfs = sysfs

    def count(self) -> int:
        """Return the number of cards that this process may use; 0 without a driver."""
        try:
            with _open(self._library) as nvml:
                number = ctypes.c_uint()
                _check(nvml.nvmlDeviceGetCount_v2(ctypes.byref(number)))
                return number.value
        except (OSError, AttributeError, NvmlError):
            return 0

    def numa_node(self, card: str) -> int | None:
        """Return the NUMA node of a card; None if the host does not say, or has one alone.

        Args:
            card: its number by PCI bus, or its UUID (`GPU-…`).
        """
        try:
            with _open(self._library) as nvml:
                info, handle = _PciInfo(), _handle(nvml, card)
                _check(nvml.nvmlDeviceGetPciInfo_v3(handle, ctypes.byref(info)))
            name = f"{info.domain:04x}:{info.bus:02x}:{info.device:02x}.0"
            node = int((self._sysfs / name / "numa_node").read_text())
        except (OSError, AttributeError, ValueError, NvmlError):
            return None
        return node if node >= 0 else None


@contextlib.contextmanager
def _open(library: str) -> Iterator[Any]:
    nvml = ctypes.CDLL(library)
    _check(nvml.nvmlInit_v2())
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def _handle(nvml: Any, card: str) -> ctypes.c_void_p:  # noqa: ANN401 - a library
    handle = ctypes.c_void_p()
    if card.isdecimal():
        number = ctypes.c_uint(int(card))
        _check(nvml.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(handle)))
    else:
        _check(nvml.nvmlDeviceGetHandleByUUID(card.encode(), ctypes.byref(handle)))
    return handle


def _check(code: int) -> None:
    if code:
        raise NvmlError(code)
