"""Shows a run in progress: logs and progress on standard error, streamed text on standard output.

Bars and colours are for terminals; a file or pipe gets the logs and the text unchanged.
"""

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

_WIDTH = 24  # characters of a metric
STEP = ".step"  # a metric with this ending counts up to the input `steps`


class Display:
    """Shows one run on the screen, as a context that surrounds the run.

    Attributes:
        is_text: whether the output is a list of the pieces of one text.
        streams_text: whether the pieces are printed as they come.
        progress: the bar, disabled unless both outputs are terminals.
    """

    def __init__(self) -> None:
        self.is_text = self.streams_text = False
        self._out = Console(highlight=False, markup=False, soft_wrap=True)
        self._err = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        self._metrics: dict[str, Any] = {}
        self._text = ""
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[metrics]}", markup=False),
            TimeElapsedColumn(),
            console=self._err,
            transient=True,
            disable=not (self._out.is_terminal and self._err.is_terminal),
        )
        self._task: TaskID = self.progress.add_task("", total=None, metrics="")

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.progress.stop()

    def say(self, message: str) -> None:
        """Print a line from this program about the run."""
        self._err.print(message)

    def expect(self, steps: int | None, *, is_text: bool, streams_text: bool) -> None:
        """Set the kind of the run that follows."""
        self.is_text = is_text
        self.streams_text = streams_text
        self.progress.update(self._task, total=steps)

    def phase(self, name: str) -> None:
        """Show the present phase of the run."""
        self.progress.update(self._task, description=name)

    def show(self, name: str, data: dict[str, Any]) -> None:
        """Show one event of the run."""
        match name:
            case "queued":
                self.phase(f"queued, position {data.get('position')}")
            case "start":  # from here on the clock measures the run, not the setup before it
                self.progress.reset(self._task, description="running")
            case "log":
                self.log(str(data.get("data", "")))
            case "metric":
                self._show_metric(str(data["name"]), data.get("value"))
            case "output" if self.streams_text:
                self.progress.stop()  # text that grows cannot share a screen with a bar below it
                self._write(str(data.get("chunk", "")))

    def log(self, text: str) -> None:
        """Print the model's logs; on a terminal, keep their colours."""
        if self._err.is_terminal:
            self._err.print(Text.from_ansi(text.rstrip("\n"), style="dim"))
        else:
            self._err.file.write(text)
            self._err.file.flush()

    def _show_metric(self, name: str, value: object) -> None:
        self._metrics[name] = value
        shown = "  ".join(f"{key} {_short(one)}" for key, one in self._metrics.items())
        self.progress.update(self._task, metrics=shown)
        if name.endswith(STEP) and isinstance(value, int | float):
            self.progress.update(self._task, completed=value)

    def _write(self, text: str) -> None:
        self._text += text
        self._out.file.write(text)
        self._out.file.flush()

    def put(self, text: str) -> None:
        """Print a whole result on standard output."""
        self._write(f"{text}\n")

    def finish_text(self, whole: str | None) -> None:
        """Print the rest of a streamed text, and end its line.

        Args:
            whole: the whole text, or None if the run failed.
        """
        whole = self._text if whole is None else whole
        rest = whole.removeprefix(self._text) if whole.startswith(self._text) else f"\n{whole}"
        ends = not (self._text + rest) or (self._text + rest).endswith("\n")
        self._write(rest if ends else f"{rest}\n")


def _short(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _WIDTH else "…"
