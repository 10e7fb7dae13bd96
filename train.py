"""Cog's door to trainings: parse, call the runner, wrap."""

from typing import Any

from cog import BaseModel, BaseRunner, Input, Path

from cog_adapt import ModelRunner, Recipe, RunnerSettings, Step, train_async
from task import TextClassification


class TrainingOutput(BaseModel):
    """The adapter's file, for COG_WEIGHTS or the input `adapter`, and the report."""

    weights: Path
    report: dict[str, Any]


class Trainer(BaseRunner):
    """Makes a persistent adapter from a larger file."""

    runner: ModelRunner

    def setup(self) -> None:
        """Load the model, and prove that gradients flow on the device."""
        self.runner = ModelRunner(TextClassification(), RunnerSettings.from_environment())
        self.runner.self_test(self.train).raise_if_failed()

    async def train(  # noqa: PLR0913 - Cog's inputs are parameters
        self,
        examples: str = Input(
            description="Labelled examples: JSON, JSON Lines or CSV, or a file (@file or URL)"
        ),
        method: str = Input(
            description="What to train: lora, head, norms, bias, all or match:REGEX",
            default="lora",
            regex="^(lora|head|norms|bias|all|match:.+)$",
        ),
        rank: int = Input(description="LoRA rank", default=8, ge=1, le=64),
        steps: int = Input(description="Steps at most", default=200, ge=1, le=100000),
        batch_size: int = Input(description="Examples a step", default=32, ge=1, le=4096),
        learning_rate: float = Input(
            description="0 chooses one by the model's width", default=0.0, ge=0.0, le=1.0
        ),
        hold_out: float = Input(
            description="Share of each label's examples kept for scoring",
            default=0.1,
            ge=0.0,
            le=0.5,
        ),
        seed: int = Input(description="Repeats a run bit for bit", default=0, ge=0),
    ) -> TrainingOutput:
        """Train; a run that was killed goes on from its checkpoint when it is asked for again."""
        rate = learning_rate or None
        recipe = Recipe(method, rank, steps, batch_size, rate, seed, hold_out=hold_out)
        path, report = await train_async(self.runner, examples, recipe, self.show)
        return TrainingOutput(weights=Path(path), report=report)

    run = train  # Cog loads a class for training only if it has both

    def show(self, step: Step) -> None:
        """Report a step, live, in the logs and as a metric."""
        print(f"step {step.number}/{step.of} loss {step.loss:.4f}", flush=True)
        self.record_metric("adaptation.step", step.number)
        self.record_metric("adaptation.loss", step.loss)
