"""Cog's predictor: it draws a text in a style; a request may carry letters of the style."""

import random
from collections.abc import AsyncIterator
from dataclasses import replace

from cog import BaseRunner, Input, Path, concurrent

from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, stream
from examples.diffusion.drawing import DrawOptions
from examples.diffusion.letters import written
from examples.diffusion.tars import unpacked
from examples.diffusion.task import Letters

RECIPE = Recipe(batch_size=8, repeats=4, learning_rate=1e-3, ema=0.9)


class Predictor(BaseRunner):
    """Draws texts; the metrics hold the adapter's id, its report, and the seed."""

    def setup(self, weights: str | None = None) -> None:
        """Load the model, and prove that gradients flow on the device."""
        self.runner = ModelRunner(Letters(), RunnerSettings.from_environment(), weights)
        self.runner.self_test(self.run).raise_if_failed()

    @concurrent(max=32)
    async def run(
        self,
        prompt: str = Input(description="The text to draw: letters, digits and spaces"),
        input_images: Path | None = Input(
            description="A ZIP with pictures of letters: A.png, or any name and a .txt with A",
            default=None,
        ),
        examples: str | list[dict] = Input(
            description="The same as rows of image (base64 or a data URI) and caption (A)",
            default="",
        ),
        adapter: str = Input(description="The id of an earlier adapter", default=""),
        replicate_weights: Path | None = Input(description="An adapter's file", default=None),
        lora_scale: float = Input(
            description="How strongly it counts; 0: its style alone", default=1.0, ge=-1.0, le=2.0
        ),
        extra_lora: str = Input(description="The id of a second adapter", default=""),
        extra_lora_scale: float = Input(
            description="How strongly the second counts", default=1.0, ge=-1.0, le=2.0
        ),
        steps: int = Input(description="Steps of learning at most", default=100, ge=1, le=2000),
        lora_rank: int = Input(description="Of what is learned", default=8, ge=1, le=64),
        seed: int | None = Input(description="Of the noise; empty: drawn", default=None, ge=0),
        num_outputs: int = Input(description="Pictures", default=1, ge=1, le=4),
        num_inference_steps: int = Input(description="From noise", default=12, ge=1, le=50),
        guidance_scale: float = Input(
            description="Weight of the style; 1: as learned", default=1.0, ge=0.0, le=5.0
        ),
        height: int = Input(description="Pixels of a line", default=128, ge=32, le=512),
        output_format: str = Input(default="png", choices=["png", "webp", "jpg"]),
        previews: int = Input(description="Pictures on the way", default=0, ge=0, le=10),
    ) -> AsyncIterator[Path]:
        """Draw, after adapting to the letters where there are any."""
        seed = random.randrange(2**31) if seed is None else seed
        print(f"Using seed: {seed}")
        options = DrawOptions(
            steps=num_inference_steps,
            guidance=guidance_scale,
            height=height,
            form=output_format,
            previews=previews,
        )
        request = Request(
            inputs=[prompt],
            examples=examples,
            examples_file=input_images,
            adapter=adapter,
            weights=unpacked(replicate_weights) if replicate_weights else None,
            recipe=replace(RECIPE, rank=lora_rank, max_steps=steps),
            lora_scale=lora_scale,
            extra_lora=extra_lora,
            extra_lora_scale=extra_lora_scale,
        )
        for number in range(num_outputs):
            drawn = replace(request, options=replace(options, seed=seed + number))
            async for picture in stream(self.runner, drawn, self.scope):
                yield Path(written(picture, output_format))

    def healthcheck(self) -> bool:
        """Return False once the base has changed, because then no answer can be trusted."""
        return not self.runner.health()
