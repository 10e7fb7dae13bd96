"""Lines of a table in which each row of sets has the same weight, for any number of splits."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.quality.records import Results
from bench.quality.scores import BySplit, above


@dataclass(frozen=True)
class Lines:
    """How contestants are summed up over rows.

    Attributes:
        titles: of the columns that differ: the part, the accuracy, rows below, losses above.
        prior: the contestant whose log loss is to be reached.
        is_below: whether a contestant misses a row.
    """

    titles: tuple[str, str, str, str]
    prior: str
    is_below: Callable[[Mapping[str, BySplit], str], bool]

    def of(
        self, part: str, names: Sequence[str], contestants: Sequence[str], found: Results
    ) -> Iterator[dict[str, object]]:
        """Yield a line for each contestant on the rows of a part; none for no rows."""
        title, accuracy, below, over = self.titles
        for contestant in contestants if names else ():
            worse = [a for name in names for a in self.above_prior(found[name], contestant)]
            yield {
                title: part,
                "contestant": contestant,
                "count": len(names),
                accuracy: mean("accuracy", names, contestant, found),
                "log loss": _known(mean("log_loss", names, contestant, found)),
                "calibration error": _known(mean("calibration_error", names, contestant, found)),
                below: sum(self.is_below(found[name], contestant) for name in names),
                over: statistics.fmean(worse) if worse else None,
            }

    def above_prior(self, row: Mapping[str, BySplit], contestant: str) -> list[bool]:
        """Say for each split whether the log loss is above the prior's; nothing without a prior."""
        return above(row[contestant], row[self.prior]) if self.prior in row else []


def mean(field: str, names: Sequence[str], contestant: str, found: Results) -> float:
    """Return the mean over rows of the mean over splits."""
    each = (found[name][contestant].values() for name in names)
    return statistics.fmean(statistics.fmean(getattr(s, field) for s in by) for by in each)


def _known(average: float) -> float | None:
    return None if math.isnan(average) else average
