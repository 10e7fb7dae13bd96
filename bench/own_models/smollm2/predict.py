"""Answers a message as it is written; a request may carry pairs to adapt to."""

from cog import AsyncConcatenateIterator, BaseRunner, Input, Path, concurrent, streaming

from bench.own_models.smollm2.task import Chat, Options
from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, stream


class Predictor(BaseRunner):
    """Streams the answer to one message; its metrics hold the adapter's id and the report."""

    def setup(self, weights: str | None = None) -> None:
        """Load the model, and prove that gradients flow on the device."""
        self.runner = ModelRunner(Chat(), RunnerSettings.from_environment(), weights)
        self.runner.self_test(self.run).raise_if_failed()

    @streaming
    @concurrent(max=8)
    async def run(
        self,
        text: str = Input(description="What to answer"),
        max_tokens: int = Input(description="Of the answer", default=24, ge=1, le=512),
        temperature: float = Input(description="0: the likeliest", default=0.0, ge=0.0, le=2.0),
        examples: str | list[dict] = Input(description="Rows of input and target", default=""),
        examples_file: Path | None = Input(description="The same in a file", default=None),
        adapter: str = Input(description="The id of an earlier adapter", default=""),
        weights: Path | None = Input(description="An adapter's file", default=None),
        steps: int = Input(description="Steps at most", default=20, ge=1, le=2000),
    ) -> AsyncConcatenateIterator[str]:
        """Answer, after adapting to the examples where there are any."""
        recipe = Recipe(max_steps=steps, batch_size=8, learning_rate=5e-3)
        options = Options(max_tokens, temperature)
        request = Request(
            [text], (), examples, examples_file, adapter, weights, recipe, options=options
        )
        async for piece in stream(self.runner, request, self.scope):
            yield piece

    def healthcheck(self) -> bool:
        """Return False once the base changed: no answer could be trusted."""
        return not self.runner.health()
