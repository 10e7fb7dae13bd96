"""Ends the process by force if it does not end by itself in time."""

import os
import threading

import structlog

log = structlog.get_logger()


def end_by_force_after(seconds: float) -> None:
    """End this process with code 1 after `seconds`, even if a thread hangs.

    The kernel then ends the workers, too; the accepted requests are in the records.
    """
    timer = threading.Timer(seconds, _end, (seconds,))
    timer.daemon = True
    timer.start()


def _end(seconds: float) -> None:
    log.error("ended by force: something did not end in time", seconds=seconds)
    os._exit(1)
