"""The progress of a worker's setup, and its logs."""

from datetime import UTC, datetime


class SetupProgress:
    """One setup of a worker.

    Attributes:
        started_at: when the worker was started.
        completed_at: when the setup ended; None before.
        error: why the setup failed, in one line; None unless it has.
        self_test: the report of the self-test of a setup that failed, as JSON.
    """

    def __init__(self) -> None:
        self.started_at = datetime.now(UTC)
        self.completed_at: datetime | None = None
        self.error: str | None = None
        self.self_test: bytes | None = None
        self._logs: list[str] = []

    @property
    def logs(self) -> str:
        """The text printed so far."""
        return "".join(self._logs)

    def add_log(self, text: str) -> None:
        """Add printed text."""
        self._logs.append(text)

    def fail(self, error: str) -> None:
        """Note why the setup failed; the reason becomes the last line of the logs."""
        self.error = error
        self.add_log(f"{error}\n")

    def complete(self) -> None:
        """Note the end of the setup."""
        self.completed_at = datetime.now(UTC)
