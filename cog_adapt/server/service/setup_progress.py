"""How far the setup of a worker has come, and what it printed."""

from datetime import UTC, datetime


class SetupProgress:
    """One setup of a worker.

    Attributes:
        started_at: when the worker was started.
        completed_at: when its setup ended; None before.
        error: why it failed, in one line; None unless it has.
    """

    def __init__(self) -> None:
        self.started_at = datetime.now(UTC)
        self.completed_at: datetime | None = None
        self.error: str | None = None
        self._logs: list[str] = []

    @property
    def logs(self) -> str:
        """What was printed so far."""
        return "".join(self._logs)

    def add_log(self, text: str) -> None:
        """Add what was printed."""
        self._logs.append(text)

    def fail(self, error: str) -> None:
        """Note why it failed; the logs end with it."""
        self.error = error
        self.add_log(f"{error}\n")

    def complete(self) -> None:
        """Note that it has ended."""
        self.completed_at = datetime.now(UTC)
