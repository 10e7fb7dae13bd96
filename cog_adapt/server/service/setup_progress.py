"""The progress of a worker's setup, and its logs."""

from datetime import UTC, datetime


class SetupProgress:
    """One setup of a worker.

    Attributes:
        started_at: the worker's start.
        completed_at: the end of the setup; None during the setup.
        error: why the setup failed, in one line; else None.
        self_test: the self-test's report if the setup failed, as JSON.
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
        """Record why the setup failed; the reason becomes the last line of the logs."""
        self.error = error
        self.add_log(f"{error}\n")

    def complete(self) -> None:
        """Record the end of the setup."""
        self.completed_at = datetime.now(UTC)
