"""The kinds of breaks, and the tests that each kind is shown to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.breaks import attack, bounds, house
from bench.breaks.device_memory import MEMORY
from bench.breaks.device_places import PLACES
from bench.breaks.device_streams import STREAMS
from bench.breaks.drawn import drawn
from bench.breaks.planting import ROOT, Break, Suite


@dataclass(frozen=True)
class BreakKind:
    """Breaks that the same tests must catch.

    Attributes:
        title: of their table.
        breaks: makes all of them from a count and a seed, which only some kinds use.
        suite: the tests that the breaks are shown to.
        must_be_seen: whether an uncaught break is a fault; otherwise it may be equivalent code.
    """

    title: str
    breaks: Callable[[int, int], Sequence[Break]]
    suite: Suite = field(default_factory=Suite)
    must_be_seen: bool = True


def _gpu_tests() -> list[str]:
    """Return the files with MiniLM's last, which is for breaks of the task itself."""
    found = (ROOT / "tests/cog_adapt/runner").glob("test_gpu*.py")
    names = sorted((path.name for path in found), key=lambda name: ("minilm" in name, name))
    return [f"tests/cog_adapt/runner/{name}" for name in names]


KINDS: Mapping[str, BreakKind] = {
    "house": BreakKind(
        "Mistakes that `make test` must detect",
        lambda count, seed: house.BREAKS,
        Suite(("--ignore=tests/cog_adapt",), ("-n", "2", "--dist", "loadfile")),
    ),
    "device": BreakKind(
        "Device bugs that the GPU tests must detect",
        lambda count, seed: (*PLACES, *STREAMS, *MEMORY),
        Suite(
            (*_gpu_tests(), "-k", "not minilm or cuda:1-bf16"),
            ("-p", "tests.standin.plugin", "-n", "0", "-m", "gpu"),
            "the stand-in for a card; no card ran",
        ),
    ),
    "attack": BreakKind(
        "Fixes of the red team's findings, and bounds on callers' data, removed",
        lambda *_: (*attack.BREAKS, *bounds.BREAKS),
    ),
    "drawn": BreakKind(
        "Mistakes drawn at random, tried with the module's own tests", drawn, must_be_seen=False
    ),
}
