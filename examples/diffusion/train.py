"""Cog's trainer: it learns a style; its inputs are named as Replicate's trainers name them."""

from typing import Any

from cog import BaseModel, BaseRunner, Input, Path

from cog_adapt import ModelRunner, Request, RunnerSettings, train
from examples.diffusion.drawing import chosen
from examples.diffusion.folder import chosen_task
from examples.diffusion.letters import TRIGGER
from examples.diffusion.tars import packed


class TrainingOutput(BaseModel):
    """A .tar with the adapter as diffusers' LoRA file, for `replicate_weights`, and the report."""

    weights: Path
    report: dict[str, Any]


class Trainer(BaseRunner):
    """Makes a persistent adapter."""

    runner: ModelRunner

    def setup(self) -> None:
        """Load the model, and prove that gradients flow on the device."""
        self.task = chosen_task()
        self.runner = ModelRunner(self.task, RunnerSettings.from_environment())
        self.runner.self_test(self.train).raise_if_failed()

    async def train(
        self,
        input_images: Path | None = Input(
            description="A ZIP of pictures (of letters: A.png), captions as .txt of the same name",
            default=None,
        ),
        examples: str | list[dict] = Input(
            description="The same as rows of image (base64 or a data URI) and caption",
            default="",
        ),
        trigger_word: str = Input(description="Caption of pictures without one", default=TRIGGER),
        steps: int = Input(description="Steps at most", default=300, ge=1, le=6000),
        lora_rank: int = Input(description="Of what is learned", default=16, ge=1, le=128),
        learning_rate: float | None = Input(
            description="Of LoRA; empty: 1e-3 for letters, else 4e-4",
            default=None,
            ge=1e-8,
            le=1.0,
        ),
        batch_size: int | None = Input(
            description="Pictures a step; empty: 16 letters, else 1", default=None, ge=1, le=64
        ),
        num_class_images: int = Input(
            description="The base paints so many first, to be kept in mind; of MODEL's folder",
            default=0,
            ge=0,
            le=100,
        ),
        seed: int = Input(description="Repeats a run bit for bit", default=0, ge=0),
    ) -> TrainingOutput:
        """Train; a run that was killed goes on from its checkpoint when it is asked for again."""
        recipe = chosen(
            self.task.recipe,
            rank=lora_rank,
            max_steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            seed=seed,
            extra_examples=num_class_images,
        )
        request = Request(
            examples=examples,
            examples_file=input_images,
            recipe=recipe,
            row_defaults={"trigger_word": trigger_word},
        )
        done = await train(self.runner, request, self.scope)
        files = self.runner.files
        content, _ = files.write(files.read(done.weights), "diffusers")
        return TrainingOutput(weights=Path(packed(content)), report=done.report)

    run = train  # Cog loads a class for training only if it has both
