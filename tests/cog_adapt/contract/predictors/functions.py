"""A plain function, a plain class, and names that are found without being given."""

from cog import Input


def shout(text: str = Input(default="t")) -> str:
    return text.upper()


class Plain:
    def predict(self, text: str = "t") -> str:
        return f"plain {text}"


class Runner:
    def run(self, text: str = "t") -> str:
        return f"runner {text}"


class Predictor:
    def run(self, text: str = "t") -> str:
        return f"predictor {text}"
