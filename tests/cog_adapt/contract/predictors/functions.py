"""A plain function, plain classes with setup(weights), and names that are found by themselves."""
# ruff: noqa: UP045 - written as users write them

from typing import Optional

from cog import Input, Path


def shout(text: str = Input(default="t")) -> str:
    return text.upper()


class _Weighed:
    def setup(self, weights: Optional[Path] = None) -> None:
        self.weights = f"{type(weights).__name__} {weights}"


class Plain(_Weighed):
    def predict(self, text: str = "t") -> str:
        return f"plain {text} {self.weights}"


class Runner(_Weighed):
    def run(self, text: str = "t") -> str:
        return f"runner {text} {self.weights}"


class Predictor(_Weighed):
    def run(self, text: str = "t") -> str:
        return f"predictor {text} {self.weights}"
