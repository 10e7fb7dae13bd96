"""Adapters for the tests of this folder."""

import torch

from cog_adapt.runner.modules.adapters import Adapter

BASE = "0" * 16


def adapter_of(number, rows=2, labels=("a", "b")):
    """Make an adapter of 12 bytes a row that differs by `number`."""
    return Adapter({"head.weight": torch.full((rows, 3), float(number))}, labels, "head", BASE)
