"""Compares `check_gradients` with what people use today, on the same faults and healthy models.

For each subject all tools take their turn, in an order that rotates; times are CPU times, so that
other work on the machine counts little. Subjects come in the order of their
names' digests, so that a run cut by `--minutes` is a sample. `--only` chooses some by a regex.

    python -m bench.gradient_tools --threads 1 --output docs/results/gradient-tools.json

Verdicts are stored as they come (`--records`), so an interrupted run continues, unless
a source of the check or of this comparison has changed. The table is written into the page beside
the output, if there is one.
"""

import argparse
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from bench.gradient_tools.asking import ask, prepare
from bench.gradient_tools.page import write_block
from bench.gradient_tools.records import Records, digest_of_sources
from bench.gradient_tools.subjects import HEALTHY_KIND, Subject, subjects
from bench.gradient_tools.tools import BY_HAND, TOOLS
from bench.gradient_tools.verdicts import Verdict
from bench.report import Columns, Report, Spread, arguments, milliseconds
from gradient_check.phases.precision import Precision

KINDS = ("no gradient", "wrong gradient", "beside the gradient")
ALL_BY_HAND = "all by hand"
RECORDS = Path(".data") / "gradient-tools.jsonl"
Answers = dict[str, list[Verdict]]
COLUMNS: Columns = {
    "tool": str,
    **dict.fromkeys(("faults seen", *KINDS, "line named", "healthy called wrong"), str),
    "not asked": str,
    "processor ms": milliseconds,
}


def compare(chosen: Sequence[Subject], records: Records, minutes: float) -> Answers:
    """Run all tools on the subjects until the time is over, in rotating order.

    Stored verdicts are not measured again, and cost no time.
    """
    prepare()
    names, ends = list(TOOLS), time.monotonic() + 60 * minutes
    answers: Answers = {name: [] for name in (*names, ALL_BY_HAND)}
    for number, subject in enumerate(chosen):
        found = records.of(subject, names)
        if found is None and time.monotonic() > ends:
            break
        if found is None:
            first = number % len(names)
            found = {name: ask(subject, name) for name in names[first:] + names[:first]}
            records.add(subject, found)
        for name in names:
            answers[name].append(found[name])
        answers[ALL_BY_HAND].append(_together([found[name] for name in BY_HAND]))
        if number % 20 == 19:
            print(f"{number + 1} of {len(chosen)}", flush=True)
    return answers


def in_order(found: Iterable[Subject]) -> list[Subject]:
    """Return subjects in the order of the digests of their names."""
    return sorted(found, key=lambda s: sha256(f"{s.corpus}: {s.name}".encode()).digest())


def _together(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of several tools together: one alarm is enough."""
    known = [verdict for verdict in verdicts if verdict.alarm is not None]
    lines = [verdict.line for verdict in verdicts if verdict.line is not None]
    return Verdict(
        any(verdict.alarm for verdict in known) if known else None,
        any(lines) if lines else None,
        sum(verdict.seconds for verdict in verdicts),
        "\n".join(verdict.words for verdict in verdicts),
    )


def row(tool: str, chosen: Sequence[Subject], verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return a tool's row of the table."""
    pairs = list(zip(chosen, verdicts, strict=True))
    faults = [(s, v) for s, v in pairs if s.kind != HEALTHY_KIND]
    healthy = [v for s, v in pairs if s.kind == HEALTHY_KIND]
    lined = [v for _, v in faults if v.line is not None]
    by_kind = {kind: _seen([v for s, v in faults if s.kind == kind]) for kind in KINDS}
    times = [1000 * v.seconds for v in verdicts if v.alarm is not None]
    return {
        "tool": tool,
        "faults seen": _seen([v for _, v in faults]),
        **by_kind,
        "line named": f"{sum(bool(v.line) for v in lined)}/{len(lined)}",
        "healthy called wrong": _seen(healthy),
        "not asked": str(sum(v.alarm is None for v in verdicts)),
        "processor ms": Spread.of(times) if times else None,
    }


def _seen(verdicts: Sequence[Verdict]) -> str:
    return f"{sum(bool(v.alarm) for v in verdicts)}/{len(verdicts)}"


def details(chosen: Sequence[Subject], answers: Mapping[str, Sequence[Verdict]]) -> list[Any]:
    """Return for each subject the tools that raised an alarm and those that did not apply."""
    return [
        {
            "corpus": subject.corpus,
            "name": subject.name,
            "kind": subject.kind,
            "alarm": [tool for tool in TOOLS if answers[tool][i].alarm],
            "not asked": [tool for tool in TOOLS if answers[tool][i].alarm is None],
            "line": [tool for tool in TOOLS if answers[tool][i].line],
        }
        for i, subject in enumerate(chosen)
    ]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", default="", help="a regex of corpora and names")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop asking after them")
    parser.add_argument(
        "--records", type=Path, default=RECORDS, help="verdicts, one subject a line"
    )
    parser.add_argument("--words", action="store_true", help="print what the tools say")


def _print_words(chosen: Sequence[Subject], answers: Answers) -> None:
    for tool in TOOLS:
        for subject, verdict in zip(chosen, answers[tool], strict=True):
            print(f"{subject.name} [{subject.kind}] {tool}: {verdict.alarm} {verdict.words}")


def main() -> None:
    """Run the comparison, print the table and write it with each subject's answers."""
    options = arguments(__doc__, _options)
    found = [s for s in subjects() if re.search(options.only, f"{s.corpus}: {s.name}")]
    ordered = in_order(found)[:: 40 if options.quick else 1]
    records = Records(options.records, digest_of_sources())
    answers = compare(ordered, records, options.minutes)
    chosen = ordered[: len(answers[ALL_BY_HAND])]
    if options.words:
        _print_words(chosen, answers)
    rows = [row(tool, chosen, answers[tool]) for tool in (*TOOLS, ALL_BY_HAND)]
    counts = {kind: sum(s.kind == kind for s in chosen) for kind in (*KINDS, HEALTHY_KIND)}
    counts |= {"subjects asked": len(chosen), "subjects there are": len(ordered)}
    report = Report("Tools for gradients", COLUMNS, rows, counts)
    report.publish(Precision(torch.device("cpu")), options.output)
    if options.output is not None:
        written = json.loads(options.output.read_text())
        written["subjects"] = details(chosen, answers)
        options.output.write_text(json.dumps(written, indent=1) + "\n")
        page = options.output.with_suffix(".md")
        if page.exists():
            write_block(page, written)


if __name__ == "__main__":
    main()
