"""The page of a report, beside its numbers."""

from pathlib import Path

from bench.report import Report
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision


def publish(report: Report, reading: str, output: Path | None) -> None:
    """Print a report, and write its numbers to `output` and its page beside."""
    report.publish(choose_precision(RunnerSettings(device="cpu")), output)
    if output is not None:
        output.with_suffix(".md").write_text(as_markdown(report, reading), "utf-8")


def as_markdown(report: Report, reading: str) -> str:
    """Return a page: how to read the table, the table, and the settings."""
    lines = [f"# {report.title}", "", reading, "", f"| {' | '.join(report.columns)} |"]
    lines.append("|---" * len(report.columns) + "|")
    for row in report.rows:
        cells = (
            show(row[title]) if title in row else "–" for title, show in report.columns.items()
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"- {name}: {value}" for name, value in report.settings.items())]
    return "\n".join(lines) + "\n"
