"""setup(weights)."""
# ruff: noqa: UP045 - written as users write them

from typing import Any, Optional

from cog import BaseRunner, Path


class Predictor(BaseRunner):
    def setup(self, weights: Optional[Path] = None) -> None:
        self.weights = weights

    def run(self) -> Any:
        return [type(self.weights).__name__, None if self.weights is None else str(self.weights)]
