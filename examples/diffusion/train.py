"""Cog's trainer: it learns a style from letters; its inputs are named as Replicate names them."""

from dataclasses import replace
from typing import Any

from cog import BaseModel, BaseRunner, Input, Path

from cog_adapt import ModelRunner, Request, RunnerSettings, train
from examples.diffusion.predict import RECIPE
from examples.diffusion.tars import packed
from examples.diffusion.task import Letters


class TrainingOutput(BaseModel):
    """A .tar with the adapter as diffusers' LoRA file, for `replicate_weights`, and the report."""

    weights: Path
    report: dict[str, Any]


class Trainer(BaseRunner):
    """Makes a persistent adapter."""

    runner: ModelRunner

    def setup(self) -> None:
        """Load the model, and prove that gradients flow on the device."""
        self.runner = ModelRunner(Letters(), RunnerSettings.from_environment())
        self.runner.self_test(self.train).raise_if_failed()

    async def train(
        self,
        input_images: Path | None = Input(
            description="A ZIP with pictures of letters: A.png, or any name and a .txt with A",
            default=None,
        ),
        examples: str | list[dict] = Input(
            description="The same as rows of image (base64 or a data URI) and caption (A)",
            default="",
        ),
        steps: int = Input(description="Steps at most", default=300, ge=1, le=6000),
        lora_rank: int = Input(description="Of what is learned", default=16, ge=1, le=128),
        learning_rate: float = Input(description="Of LoRA", default=1e-3, ge=1e-8, le=1.0),
        batch_size: int = Input(description="Letters a step", default=8, ge=1, le=64),
        seed: int = Input(description="Repeats a run bit for bit", default=0, ge=0),
    ) -> TrainingOutput:
        """Train; a run that was killed goes on from its checkpoint when it is asked for again."""
        recipe = replace(
            RECIPE,
            rank=lora_rank,
            max_steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            seed=seed,
        )
        request = Request(examples=examples, examples_file=input_images, recipe=recipe)
        done = await train(self.runner, request, self.scope)
        files = self.runner.files
        content, _ = files.write(files.read(done.weights), "diffusers")
        return TrainingOutput(weights=Path(packed(content)), report=done.report)

    run = train  # Cog loads a class for training only if it has both
