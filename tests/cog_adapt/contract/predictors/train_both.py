"""A predictor beside the training function of train.py."""

from cog import BaseRunner, Input


class Predictor(BaseRunner):
    def run(self, text: str = Input(default="t")) -> str:
        return f"predicted {text}"
