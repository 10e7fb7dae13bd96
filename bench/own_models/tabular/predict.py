"""Predicts prices of houses; a request may carry sold houses to adapt to."""

from typing import Any

from cog import BaseModel, BaseRunner, Input, Path, concurrent

from bench.own_models.tabular.task import HousePrices
from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, answer


class Output(BaseModel):
    """Prices by the adapted weights and before, and what the adaptation did."""

    predictions: list[float]
    before: list[float] | None
    adapter: str | None
    report: dict[str, Any] | None


class Predictor(BaseRunner):
    """Answers each row with a price."""

    def setup(self, weights: str | None = None) -> None:
        """Load the model, and prove that gradients flow on the device."""
        self.runner = ModelRunner(HousePrices(), RunnerSettings.from_environment(), weights)
        self.runner.self_test(self.run).raise_if_failed()

    @concurrent(max=8)
    async def run(
        self,
        rows: list[dict] = Input(description="Houses: area, rooms, age, floor, distance, garden"),
        examples: str | list[dict] = Input(description="Houses with a price", default=""),
        examples_file: Path | None = Input(description="The same in a file", default=None),
        adapter: str = Input(description="The id of an earlier adapter", default=""),
        weights: Path | None = Input(description="An adapter's file", default=None),
        steps: int = Input(description="Steps at most", default=60, ge=1, le=2000),
    ) -> Output:
        """Predict prices, after adapting to the examples where there are any."""
        recipe = Recipe(max_steps=steps)
        request = Request(rows, (), examples, examples_file, adapter, weights, recipe)
        return Output(**vars(await answer(self.runner, request, self.scope)))

    def healthcheck(self) -> bool:
        """Return False once the base changed: no answer could be trusted."""
        return not self.runner.health()
