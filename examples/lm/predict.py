"""Cog's predictor for a language model: it streams answers; a request may carry pairs to learn."""

from cog import AsyncConcatenateIterator, BaseRunner, Input, Path, concurrent, streaming

from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, TextOptions, stream
from examples.lm.task import Chat


class Predictor(BaseRunner):
    """Streams the answer; the metrics hold the adapter's id, its report, and what it took."""

    def setup(self, weights: str | None = None) -> None:
        """Load the model, and prove that gradients flow on the device."""
        self.runner = ModelRunner(Chat(), RunnerSettings.from_environment(), weights)
        self.runner.self_test(self.run).raise_if_failed()

    @streaming
    @concurrent(max=32)
    async def run(
        self,
        prompt: str = Input(description="What to answer", default=""),
        messages: list[dict] | None = Input(description="A chat, in its place", default=None),
        raw: bool = Input(description="Go on with `prompt`, without a template", default=False),
        max_tokens: int = Input(description="Of the answer", default=256, ge=1, le=8192),
        temperature: float = Input(description="0: the likeliest", default=0.0, ge=0.0, le=2.0),
        top_p: float = Input(description="Share to draw from", default=1.0, ge=0.01, le=1.0),
        top_k: int = Input(description="Tokens to draw from; 0: all", default=0, ge=0),
        repetition_penalty: float = Input(description="1: none", default=1.0, ge=0.1, le=10.0),
        stop: list[str] | None = Input(description="Texts that end it", default=None),
        seed: int | None = Input(description="Of what is drawn", default=None, ge=0),
        examples: str | list[dict] = Input(description="Rows of prompt, completion", default=""),
        examples_file: Path | None = Input(description="The same in a file", default=None),
        adapter: str = Input(description="The id of an earlier adapter", default=""),
        weights: Path | None = Input(description="An adapter's file", default=None),
        steps: int = Input(description="Steps at most", default=20, ge=1, le=2000),
        learning_rate: float = Input(description="0: automatic", default=0.0, ge=0.0, le=1.0),
        hold_out: float = Input(description="Share for perplexity", default=0.0, ge=0.0, le=0.5),
    ) -> AsyncConcatenateIterator[str]:
        """Answer, after adapting to the examples where there are any."""
        options = TextOptions(
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            repetition_penalty=repetition_penalty,
            stop=tuple(stop or ()),
            seed=seed,
        )
        recipe = Recipe(
            max_steps=steps, batch_size=8, learning_rate=learning_rate, hold_out=hold_out
        )
        asked = {"text": prompt} if raw else (messages or prompt)
        request = Request(
            inputs=[asked],
            examples=examples,
            examples_file=examples_file,
            adapter=adapter,
            weights=weights,
            recipe=recipe,
            options=options,
        )
        async for piece in stream(self.runner, request, self.scope):
            yield piece

    def healthcheck(self) -> bool:
        """Return False once the base has changed, because then no answer can be trusted."""
        return not self.runner.health()
