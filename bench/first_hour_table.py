"""Writes the page of the first hour: seconds of each step, for each kind."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_HEAD = """\
# The first hour

Written by `make first-hour`: a stranger's steps with each kind of model, from nothing, in a new
folder with an empty home, by the commands that README names and `cog-adapt new` prints. Seconds by
the clock, with all downloads; PyTorch is installed twice, for the command and for the project. The
goal is a personalised answer by curl within {goal:.0f} s. Every answer was compared with the right
one.

"""


def write_table(
    file: Path, found: Mapping[str, Any], to_the_answer: Sequence[str], goal: float
) -> None:
    """Write a row for each step, and one for all steps up to the answer."""
    names = list(dict.fromkeys(name for each in found.values() for name in each["seconds"]))
    rows = [[name, *(_seconds(each, name) for each in found.values())] for name in names]
    total = [f"{each['to_the_answer']:.0f}" for each in found.values()]
    answers = [each["answers"]["curl"].replace("|", "\\|") for each in found.values()]
    table = [
        ["step", *found],
        ["---", *("---:" for _ in found)],
        *([f"{name} (to the answer)" if name in to_the_answer else name, *v] for name, *v in rows),
        [f"**to a personalised answer** (goal {goal:.0f})", *total],
        ["the answer", *answers],
    ]
    lines = [f"| {' | '.join(cells)} |" for cells in table]
    machines = {f"Python {each['python']}, {each['cores']} cores" for each in found.values()}
    text = _HEAD.format(goal=goal) + "\n".join(lines) + f"\n\n{'; '.join(sorted(machines))}\n"
    file.write_text(text)


def _seconds(each: Mapping[str, Any], name: str) -> str:
    return f"{each['seconds'][name]:.1f}" if name in each["seconds"] else ""
