"""A predictor whose loss has lost its graph: its self-test fails, and it serves all the same."""

from cog import BaseRunner, Input

from cog_adapt import ModelRunner, RunnerSettings
from tests.cog_adapt.models import Letters


class Cut(Letters):
    def encode(self, inputs):
        return super().encode(inputs)

    def loss(self, module, batch, targets):
        return super().loss(module, batch, targets).detach()


class Predictor(BaseRunner):
    def setup(self) -> None:
        self.runner = ModelRunner(Cut(), RunnerSettings.from_environment())
        self.runner.self_test()

    def run(self, text: str = Input(default="abc")) -> str:
        return text
