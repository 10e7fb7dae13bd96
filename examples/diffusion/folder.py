"""Pictures by a FLUX or Stable Diffusion 3 folder (MODEL), which learns from pictures and captions.

An adapter has LoRA's pairs in the transformer's attention, as diffusers' own scripts train them;
texts and latents of examples are computed once. Without a captioner, a picture without a caption is
described by the trigger word alone.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from cog_adapt import Batch, Example, InputError, Recipe
from examples.diffusion.drawing import DrawOptions
from examples.diffusion.flow import flow_loss
from examples.diffusion.letters import TRIGGER
from examples.diffusion.painting import Painting, advances_of
from examples.diffusion.photos import MOST_SIDE, Photo, gradient_bar, photo_row
from examples.diffusion.pictured import PicturedTask
from examples.diffusion.pipelines import Pipeline, load_folder
from examples.diffusion.task import Letters


def chosen_task() -> "Letters | Folder":
    """Return the task of MODEL's folder; without MODEL, that of the packaged letters."""
    return Folder() if os.environ.get("MODEL") else Letters()


class Folder(PicturedTask):
    """Inputs are prompts, or in examples a caption with its picture."""

    lora_targets = r"transformer\..*transformer_blocks\..*(to_[qkv]|to_(add_)?out.*|add_._proj)"
    unused = r"vae\..*|text_encoder.*"
    options = DrawOptions(steps=28, guidance=3.5, height=0)
    probe_options = DrawOptions(steps=1, height=0)
    recipe = Recipe(rank=16, batch_size=1, learning_rate=4e-4, ema=0.99, checkpointing=True)

    def __init__(self, folder: str | None = None, side: int | None = None) -> None:
        self._folder = folder or os.environ["MODEL"]
        self.side = side or int(os.environ.get("RESOLUTION", "512"))  # pixels of an example

    def load(self) -> Pipeline:
        module, self._tokenizers = load_folder(self._folder)
        self._channels, self._scale = module.channels, module.scale
        self._unit = 2 * module.scale  # pixels that a side is a multiple of
        self.side = min(self.side, module.sample_side) // self._unit * self._unit
        return module

    def example(self, row: Mapping[str, Any]) -> Example:
        return Example(photo_row(row), 0)

    def decode_input(self, value: Any) -> Any:
        return Photo.read(value, self.side) if isinstance(value, Mapping) else str(value)

    def encode(self, inputs: Sequence[Any]) -> Batch:
        pictures = torch.stack([torch.from_numpy(each.pixels) for each in inputs])
        return self._tokenizers.ids([each.caption for each in inputs]) | {"picture": pictures}

    def prepare(self, module: Any, batch: Batch, targets: Tensor) -> tuple[Batch, Tensor]:
        return module.texts(batch) | {"latents": module.latents_of(batch["picture"])}, targets

    def loss(self, module: Any, batch: Batch, targets: Tensor) -> Tensor:
        guidance = torch.ones_like(targets)  # as diffusers' scripts train

        def clean(x: Tensor, sigma: Tensor) -> Tensor:
            velocity: Tensor = module(x, sigma, batch, guidance).float()
            return x - sigma.view(-1, 1, 1, 1) * velocity

        return flow_loss(batch["latents"], clean, least=1e-3)

    def extra_examples(
        self, module: Any, examples: Sequence[Example], count: int
    ) -> Iterator[Example | None]:
        """Paint what the captions say without the trigger word."""
        for number in range(count):
            photo = examples[number % len(examples)].input
            caption = photo.caption.replace(TRIGGER, "").strip()
            size = {"height": self.side, "width": self.side}
            options = replace(self.options, seed=number, form="pixels", **size)
            painting = self.begin(caption, options)
            while not painting.done:
                painting.advance(advances_of(module, [painting])[0])
                yield None
            yield Example(Photo(caption, painting.taken()), 0)

    def begin(self, input: Any, options: DrawOptions) -> Painting:
        height, width = (side or self.side for side in (options.height, options.width))
        if max(height, width) > MOST_SIDE or min(height, width) < self._unit:
            raise InputError(
                f"the picture has {width} x {height} pixels; each side is {self._unit} to "
                f"{MOST_SIDE}. Ask for another size."
            )
        return Painting(
            ids=self._tokenizers.ids([input, ""]),
            sides=(
                height // self._unit * self._unit,
                width // self._unit * self._unit,
                self._scale,
            ),
            channels=self._channels,
            sigmas=self._tokenizers.sigmas(
                options.steps, height // self._scale, width // self._scale
            ),
            options=options,
        )

    def next_logits(self, module: Any, generations: Sequence[Any]) -> Tensor:
        return advances_of(module, generations)

    def predict(
        self, module: Any, batch: Batch, labels: Sequence[str], options: DrawOptions
    ) -> list[Any]:
        """Estimate a velocity of each picture: the self-test's prediction."""
        texts, latents = module.texts(batch), module.latents_of(batch["picture"])
        sigma = torch.full_like(latents[:, 0, 0, 0], 0.5)
        return [*module(latents, sigma, texts, sigma * 2).flatten(1).tolist()]

    def probe(self) -> list[Example]:
        rows = ((TRIGGER, gradient_bar(0)), (f"a {TRIGGER}", gradient_bar(1)))
        return [Example({"caption": text, "picture": picture}, 0) for text, picture in rows]
