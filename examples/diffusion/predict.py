"""Cog's predictor: it draws a text in a style; a request may carry pictures of the style.

Without MODEL, the pictures are letters; MODEL names a folder of FLUX or Stable Diffusion 3.
"""

from collections.abc import AsyncIterator
from dataclasses import replace

from cog import BaseRunner, Input, Path, concurrent

from cog_adapt import ModelRunner, Request, RunnerSettings, stream
from examples.diffusion.drawing import chosen, seeded
from examples.diffusion.folder import chosen_task
from examples.diffusion.letters import TRIGGER, written
from examples.diffusion.tars import unpacked


class Predictor(BaseRunner):
    """Draws; the metrics hold the adapter's id, its report, and the seed."""

    def setup(self, weights: str | None = None) -> None:
        """Load the model, and prove that gradients flow on the device."""
        self.task = chosen_task()
        self.runner = ModelRunner(self.task, RunnerSettings.from_environment(), weights)
        self.runner.self_test(self.run).raise_if_failed()

    @concurrent(max=32)
    async def run(
        self,
        prompt: str = Input(description="What to draw; without MODEL, letters and digits"),
        input_images: Path | None = Input(
            description="A ZIP of pictures (of letters: A.png), captions as .txt of the same name",
            default=None,
        ),
        examples: str | list[dict] = Input(
            description="The same as rows of image (base64 or a data URI) and caption",
            default="",
        ),
        trigger_word: str = Input(description="Caption of pictures without one", default=TRIGGER),
        adapter: str = Input(description="The id of an earlier adapter", default=""),
        replicate_weights: Path | None = Input(description="An adapter's file", default=None),
        lora_scale: float | None = Input(
            description="How strongly it counts; 0: its style alone; empty: .6 of letters, 1",
            default=None,
            ge=-1.0,
            le=2.0,
        ),
        extra_lora: str = Input(description="The id of a second adapter", default=""),
        extra_lora_scale: float = Input(
            description="How strongly the second counts", default=1.0, ge=-1.0, le=2.0
        ),
        method: str = Input(
            description="lora; head: the style alone; auto: what draws left-out letters best; "
            "empty: the adapter's, else lora",
            default="",
            choices=["", "auto", "lora", "head"],
        ),
        steps: int = Input(description="Steps of learning at most", default=100, ge=1, le=2000),
        lora_rank: int | None = Input(
            description="Of what is learned; empty: 8 for letters, else 16",
            default=None,
            ge=1,
            le=64,
        ),
        seed: int | None = Input(description="Of the noise; empty: drawn", default=None, ge=0),
        num_outputs: int = Input(description="Pictures", default=1, ge=1, le=4),
        num_inference_steps: int | None = Input(
            description="From noise to picture; empty: 12 for letters, else 28",
            default=None,
            ge=1,
            le=50,
        ),
        guidance_scale: float | None = Input(
            description="Weight of the style or prompt; empty: 1 for letters, else 3.5",
            default=None,
            ge=0.0,
            le=10.0,
        ),
        height: int | None = Input(
            description="Pixels, of letters those of a line", default=None, ge=16, le=2048
        ),
        width: int | None = Input(
            description="Pixels; letters take what they need", default=None, ge=16, le=2048
        ),
        output_format: str = Input(default="png", choices=["png", "webp", "jpg"]),
        previews: int = Input(
            description="Pictures while it learns, or else while it draws", default=0, ge=0, le=10
        ),
    ) -> AsyncIterator[Path]:
        """Draw, after adapting to the letters where there are any."""
        options = chosen(
            self.task.options,
            steps=num_inference_steps,
            guidance=guidance_scale,
            height=height,
            width=width,
            form=output_format,
            previews=0 if examples or input_images else previews,
        )
        usual = self.task.recipe
        request = Request(
            inputs=[prompt],
            examples=examples,
            examples_file=input_images,
            adapter=adapter,
            weights=unpacked(replicate_weights) if replicate_weights else None,
            recipe=chosen(usual, method=method, rank=lora_rank, max_steps=steps, previews=previews),
            row_defaults={"trigger_word": trigger_word},
            lora_scale=self.task.lora_scale if lora_scale is None else lora_scale,
            extra_lora=extra_lora,
            extra_lora_scale=extra_lora_scale,
        )
        for each in seeded(options, seed, num_outputs):
            async for picture in stream(self.runner, replace(request, options=each), self.scope):
                yield Path(written(picture, output_format))

    def healthcheck(self) -> bool:
        """Return False once the base has changed, because then no answer can be trusted."""
        return not self.runner.health()
