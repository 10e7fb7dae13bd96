"""Cog's trainer: parses a request, calls the runner, and wraps the adapter."""

from typing import Any

from cog import BaseModel, BaseRunner, Input, Path

from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, train
from task import TextClassification


class TrainingOutput(BaseModel):
    """The adapter's file, for COG_WEIGHTS or the input `weights`, and the report."""

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
        examples: str | list[dict] = Input(
            description="Rows of text and label: a list, or JSON, JSON Lines or CSV", default=""
        ),
        examples_file: Path | None = Input(description="The same in a file", default=None),
        method: str = Input(
            description="lora, auto, head, norms, bias, all or match:GLOBS; empty: lora",
            default="",
            regex="^(|auto|lora|head|norms|bias|all|match:.{1,200})$",
        ),
        rank: int = Input(description="LoRA rank; 0: 8", default=0, ge=0, le=64),
        blocks: int = Input(description="Last blocks to train; 0: all", default=0, ge=0, le=1000),
        steps: int = Input(description="Steps at most", default=200, ge=1, le=100000),
        batch_size: int = Input(description="Examples a step", default=32, ge=1, le=4096),
        learning_rate: float = Input(description="0: automatic", default=0.0, ge=0.0, le=1.0),
        hold_out: float = Input(description="Share for scoring", default=0.1, ge=0.0, le=0.5),
        seed: int = Input(description="Repeats a run bit for bit", default=0, ge=0),
        strict: bool = Input(description="Refuse what is only warned about", default=False),
        fresh: bool = Input(description="Ignore adapters of fewer examples", default=False),
    ) -> TrainingOutput:
        """Train; a run that was killed goes on from its checkpoint when it is asked for again."""
        recipe = Recipe(
            method=method,
            rank=rank,
            blocks=blocks,
            max_steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            hold_out=hold_out,
            seed=seed,
        )
        request = Request(
            examples=examples,
            examples_file=examples_file,
            recipe=recipe,
            strict=strict,
            fresh=fresh,
        )
        done = await train(self.runner, request, self.scope)
        return TrainingOutput(weights=Path(done.weights), report=done.report)

    run = train  # Cog loads a class for training only if it has both
