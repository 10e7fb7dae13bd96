"""How far the resident memory of this process rises: what a decoder written in C takes, too."""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Rise:
    """Megabytes by which the high-water mark lies above the start; set at the end of the block."""

    mb = 0


@contextmanager
def risen() -> Iterator[Rise]:
    """Measure a block; skips where the system cannot put the mark back."""
    gc.collect()
    try:
        _RESET.write_text("5")
    except OSError as error:
        pytest.skip(f"the high-water mark of memory cannot be put back: {error}")
    begin, rise = _megabytes("VmHWM"), Rise()
    try:
        yield rise
    finally:
        rise.mb = _megabytes("VmHWM") - begin


def _megabytes(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+)", _STATUS.read_text())
    assert found, "the system tells no memory"
    return int(found[1]) // 1024
