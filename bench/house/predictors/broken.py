"""A predictor whose setup fails."""

from cog import BaseRunner


class Predictor(BaseRunner):  # type: ignore[misc]
    """Never ready."""

    def setup(self) -> None:
        """Fail."""
        raise RuntimeError("no weights here")

    def run(self, text: str = "x") -> str:
        """Never called."""
        return text
