"""Which servers a test asks: coglet, the mirror with STRICT_COG=1, the mirror.

`CONTRACT=coglet,mirror` in the environment picks flavours.
"""

import os
from collections.abc import Sequence

import pytest

from tests.cog_adapt.contract.serving import FLAVOURS

# coglet loses a cancel or a free slot by chance, the more so on a busy machine (see the table of
# differences): what it does is looked at three times at most. The mirror has one chance.
_BY_CHANCE = pytest.mark.flaky(reruns=2, reruns_delay=2)
_CHOSEN = os.environ.get("CONTRACT", ",".join(FLAVOURS)).split(",")


def chosen(flavours: Sequence[str]) -> list[object]:
    """Return those of the flavours that are picked, as parameters of a test or fixture."""
    return [
        pytest.param(flavour, marks=_BY_CHANCE if flavour == "coglet" else ())
        for flavour in flavours
        if flavour in _CHOSEN
    ]


# STRICT_COG=1 changes what HTTP answers, what is kept and who waits. How a process starts, loads a
# model, dies and ends is the same code with it and without: tests of that alone ask one mirror. The
# mark is the lowest of a test, so that its id begins with the flavour (see scheduling.py).
STRICT_OR_NOT = pytest.mark.parametrize("flavour", chosen(("coglet", "mirror")), indirect=True)
