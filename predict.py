"""Cog's predictor: parses a request, calls the runner, and wraps the answer."""

from cog import BaseModel, BaseRunner, Input, Path, concurrent, streaming

from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, answer
from task import TextClassification


class Output(BaseModel):
    """Predictions with the adapted weights, and what the adaptation did."""

    predictions: list[dict]
    before: list[dict] | None
    adapter: str | None
    report: dict | None


class Predictor(BaseRunner):
    """Classifies texts; a request may carry labelled examples to adapt to."""

    def setup(self, weights: str | None = None) -> None:
        """Load the model, and prove that gradients flow on the device."""
        self.runner = ModelRunner(TextClassification(), RunnerSettings.from_environment(), weights)
        self.runner.self_test(self.run).raise_if_failed()

    @streaming
    @concurrent(max=32)
    async def run(  # noqa: PLR0913 - Cog's inputs are parameters
        self,
        text: str = Input(description="Text to classify", default=""),
        texts: list[str] | None = Input(description="Several texts", default=None),
        labels: list[str] | None = Input(description="Label names to score", default=None),
        examples: str | list[dict] = Input(
            description="Rows of text and label: a list, or JSON, JSON Lines or CSV", default=""
        ),
        examples_file: Path | None = Input(description="The same in a file", default=None),
        adapter: str = Input(description="The id of an earlier adapter", default=""),
        weights: Path | None = Input(description="An adapter's file", default=None),
        method: str = Input(
            description="auto, lora, head, norms, bias, all or match:GLOBS; auto chooses",
            default="auto",
            regex="^(|auto|lora|head|norms|bias|all|match:.{1,200})$",
        ),
        rank: int = Input(description="LoRA rank; 0: adapter's, else 8", default=0, ge=0, le=64),
        blocks: int = Input(description="Last blocks to train; 0: all", default=0, ge=0, le=1000),
        steps: int = Input(description="Steps at most", default=40, ge=1, le=2000),
        budget_seconds: float = Input(description="At most", default=60.0, ge=0.1, le=3600.0),
        learning_rate: float = Input(description="0: automatic", default=0.0, ge=0.0, le=1.0),
        hold_out: float = Input(description="Share for scoring", default=0.0, ge=0.0, le=0.5),
        seed: int = Input(description="Repeats a run bit for bit", default=0, ge=0),
        strict: bool = Input(description="Refuse what is only warned about", default=False),
        fresh: bool = Input(description="Ignore adapters of fewer examples", default=False),
        deterministic: bool = Input(description="Answer alone, bit for bit", default=False),
    ) -> Output:
        """Classify, after adapting to the examples where there are any."""
        inputs = [*([text] if text else []), *(texts or [])]
        recipe = Recipe(
            method=method,
            rank=rank,
            blocks=blocks,
            max_steps=steps,
            budget_seconds=budget_seconds,
            learning_rate=learning_rate,
            hold_out=hold_out,
            seed=seed,
        )
        request = Request(
            inputs=inputs,
            labels=labels or (),
            examples=examples,
            examples_file=examples_file,
            adapter=adapter,
            weights=weights,
            recipe=recipe,
            strict=strict,
            fresh=fresh,
            deterministic=deterministic,
        )
        return Output(**vars(await answer(self.runner, request, self.scope)))

    def healthcheck(self) -> bool:
        """Return False once the base has changed, because then no answer can be trusted."""
        return not self.runner.health()
