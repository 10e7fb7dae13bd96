"""Shows a report in a terminal: the checks, the findings, and a heat bar of gradient norms."""

import math
from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from gradient_check.findings.report import Check, Finding, GradientReport
from gradient_check.instruments.selection import by_layer

_COLOURS = {"passed": "green", "warned": "yellow", "failed": "red", "skipped": "dim"}
_LEVELS = {"FAIL": "red", "WARN": "yellow", "NOTE": "cyan"}
_MARKS = {"passed": "ok", "warned": "warn", "failed": "FAIL", "skipped": "skipped"}
_WIDTH = 24
MOST_LAYERS = 32
_MOST_NAME = 34  # with the bar this fits 80 columns


def render(report: GradientReport) -> RenderableType:
    """Return the report as a rich renderable."""
    colour = "green" if report.passed else "red"
    headline = Text(str(report).splitlines()[0], style=f"bold {colour}")
    parts: list[RenderableType] = [headline, _checks(report.checks)]
    parts += [_finding(finding) for finding in report.findings]
    if report.gradient_norms:
        parts.append(_norms(by_layer(report.gradient_norms)))
    return Group(*parts)


def _checks(checks: tuple[Check, ...]) -> Table:
    table = Table("check", "outcome", "ms", "measured", box=None, header_style="dim")
    for check in checks:
        measured = ", ".join(f"{name} {value:.3g}" for name, value in check.numbers.items())
        outcome = Text(_MARKS[check.status], style=_COLOURS[check.status])
        table.add_row(check.name, outcome, f"{1000 * check.seconds:.0f}", measured)
    return table


def _finding(finding: Finding) -> Text:
    colour = _LEVELS[finding.level]
    return Text.from_markup(f"[bold {colour}]{finding.level}[/] {escape(str(finding)[5:])}")


def _norms(norms: Mapping[str, float]) -> Table:
    table = Table("layer", "gradient norm", "", box=None, header_style="dim")
    finite = [math.log10(norm) for norm in norms.values() if 0 < norm < math.inf]
    low, high = min(finite, default=0.0) - 0.5, max(finite, default=0.0)
    for layer, norm in list(norms.items())[:MOST_LAYERS]:
        table.add_row(end_of_name(layer), f"{norm:.2e}", bar_of(norm, low, high))
    if len(norms) > MOST_LAYERS:
        table.add_row(f"and {len(norms) - MOST_LAYERS} more", "", "")
    return table


def end_of_name(layer: str) -> str:
    """Return the end of a long name, which distinguishes layers."""
    return layer if len(layer) <= _MOST_NAME else f"…{layer[1 - _MOST_NAME :]}"


def bar_of(norm: float, low: float, high: float) -> Text:
    """Return a bar that is longer and hotter for a larger norm, on a logarithmic scale."""
    if not 0 < norm < math.inf:
        return Text("none" if norm == 0 else "not finite", style="bold red")
    share = (math.log10(norm) - low) / max(high - low, 1e-9)
    red, blue = round(255 * share), round(255 * (1 - share))
    return Text("█" * max(1, round(share * _WIDTH)), style=f"rgb({red},80,{blue})")
