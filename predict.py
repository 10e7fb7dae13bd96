"""Cog's door to predictions: parse, call the runner, wrap."""

from dataclasses import asdict
from typing import Any

from cog import BaseModel, BaseRunner, Input, concurrent, streaming

from cog_adapt import ModelRunner, Question, Recipe, RunnerSettings, Step, answer, default_adapter
from task import TextClassification


class Output(BaseModel):
    """Predictions with the adapted weights, and what the adaptation did."""

    predictions: list[dict[str, Any]]
    before: list[dict[str, Any]] | None
    adapter: str | None
    report: dict[str, Any] | None


class Predictor(BaseRunner):
    """Classifies texts; a request may carry labelled examples to adapt to."""

    def setup(self, weights: str | None = None) -> None:
        """Load the model, and prove that gradients flow on the device."""
        self.runner = ModelRunner(TextClassification(), RunnerSettings.from_environment())
        self.runner.self_test(self.run).raise_if_failed()
        self.default = default_adapter(weights)

    @streaming
    @concurrent(max=8)
    async def run(  # noqa: PLR0913 - Cog's inputs are parameters
        self,
        text: str = Input(description="Text to classify", default=""),
        texts: list[str] | None = Input(description="Several texts", default=None),
        labels: list[str] | None = Input(description="Label names to score", default=None),
        examples: str = Input(
            description="Labelled examples: JSON, JSON Lines or CSV, or a file (@file or URL)",
            default="",
        ),
        adapter: str = Input(description="Earlier weights: an id, @file or URL", default=""),
        method: str = Input(
            description="What to train: lora, head, norms, bias, all or match:REGEX",
            default="lora",
            regex="^(lora|head|norms|bias|all|match:.+)$",
        ),
        rank: int = Input(description="LoRA rank", default=8, ge=1, le=64),
        steps: int = Input(description="Steps at most", default=40, ge=1, le=2000),
        budget_seconds: float = Input(description="At most", default=60.0, ge=0.1, le=3600.0),
        learning_rate: float = Input(description="0: automatic", default=0.0, ge=0.0, le=1.0),
        hold_out: float = Input(
            description="Share of each label's examples kept for scoring",
            default=0.0,
            ge=0.0,
            le=0.5,
        ),
        seed: int = Input(description="Repeats a run bit for bit", default=0, ge=0),
    ) -> Output:
        """Classify, after adapting to the examples where there are any."""
        question = Question(
            [*([text] if text else []), *(texts or [])], labels or (), examples, adapter
        )
        recipe = Recipe(
            method, rank, steps, 32, learning_rate or None, seed, budget_seconds, hold_out
        )
        done = await answer(self.runner, question, recipe, self.show, self.default)
        return Output(**asdict(done))

    def show(self, step: Step) -> None:
        """Report a step, live, in the logs and as a metric."""
        print(f"step {step.number}/{step.of} loss {step.loss:.4f}", flush=True)
        self.record_metric("adaptation.step", step.number)
        self.record_metric("adaptation.loss", step.loss)

    def healthcheck(self) -> bool:
        """Return False once the base has changed, because then no answer can be trusted."""
        return not self.runner.health()
