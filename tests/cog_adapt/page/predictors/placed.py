"""A predictor whose setup fails on one of two devices."""

import os

from cog import BaseRunner


class Predictor(BaseRunner):
    def setup(self) -> None:
        if os.environ["CUDA_VISIBLE_DEVICES"] == "6":
            raise RuntimeError("no weights on this card")

    def run(self, text: str) -> str:
        return text
