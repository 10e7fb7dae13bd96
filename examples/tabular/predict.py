"""Cog's predictor: parses a request, calls the runner, and wraps the answer."""

from typing import Any

from cog import BaseModel, BaseRunner, Input, Path, concurrent

from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, answer
from examples.tabular.task import Table


class Output(BaseModel):
    """Numbers or classes by the adapted weights and before, and what the adaptation did."""

    predictions: list[Any]
    before: list[Any] | None
    adapter: str | None
    report: dict[str, Any] | None


class Predictor(BaseRunner):
    """Answers each row; a request may carry rows with their answers to adapt to."""

    def setup(self, weights: str | None = None) -> None:
        """Load the model, and prove that gradients flow on the device."""
        self.runner = ModelRunner(Table(), RunnerSettings.from_environment(), weights)
        self.runner.self_test(self.run).raise_if_failed()

    @concurrent(max=32)
    async def run(
        self,
        rows: list[dict] = Input(description="Rows of age, bmi, bp, tc, ldl, hdl and so on"),
        examples: str | list[dict] = Input(
            description="Such rows, each with a target (a number) or a label", default=""
        ),
        examples_file: Path | None = Input(description="The same in a file", default=None),
        adapter: str = Input(description="The id of an earlier adapter", default=""),
        weights: Path | None = Input(description="An adapter's file", default=None),
        method: str = Input(
            description="auto, head, norms, bias or all; auto chooses",
            default="auto",
            regex="^(auto|head|norms|bias|all)$",
        ),
        steps: int = Input(description="Steps at most", default=60, ge=1, le=2000),
        seed: int = Input(description="Repeats a run bit for bit", default=0, ge=0),
    ) -> Output:
        """Answer rows, after adapting to the examples where there are any."""
        recipe = Recipe(method=method, max_steps=steps, seed=seed)
        request = Request(
            inputs=rows,
            examples=examples,
            examples_file=examples_file,
            adapter=adapter,
            weights=weights,
            recipe=recipe,
        )
        return Output(**vars(await answer(self.runner, request, self.scope)))

    def healthcheck(self) -> bool:
        """Return False once the base has changed, because then no answer can be trusted."""
        return not self.runner.health()
