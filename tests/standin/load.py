"""Puts the device in place, so that the torch of this process finds it."""

import ctypes
import sys

from tests.standin.build import library
from tests.standin.errors import StandInError


def load() -> None:
    """Load the device; call it once, before torch is imported.

    Raises:
        StandInError: the device cannot be compiled here, or torch was imported already.
    """
    # torch asks once which hooks answer for CUDA, in its import, and keeps the answer.
    if "torch" in sys.modules:
        raise StandInError("torch is imported already. Load the stand-in first.")
    ctypes.CDLL(str(library()), mode=ctypes.RTLD_GLOBAL)
    from tests.standin import cuda, storages  # they import torch

    cuda.install()
    storages.install()
