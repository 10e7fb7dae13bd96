"""A prompt on its way from noise to a picture: Euler steps on latents, then the decoding."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from cog_adapt import Batch, Generation, batch_rows
from examples.diffusion.drawing import DrawOptions
from examples.diffusion.letters import data_uri
from examples.diffusion.pipelines import Pipeline


class Painting(Generation):
    """One picture.

    Args:
        ids: of the prompt and of the empty text, [2, tokens] by each tokenizer.
        sides: height and width in pixels, and pixels of a latent's side.
        channels: of a latent.
        sigmas: shares of noise before each step and after the last, [steps + 1].
        options: of the request.

    Attributes:
        x: latents, [c, h, w].
        texts: what the transformer is given of the two texts; None until its first forward.
        shows: whether the next forward decodes a picture, in place of a step.
    """

    joins = True

    def __init__(
        self,
        *,
        ids: Batch,
        sides: tuple[int, int, int],
        channels: int,
        sigmas: Tensor,
        options: DrawOptions,
    ) -> None:
        height, width, scale = sides
        draws = torch.Generator().manual_seed(options.seed)
        self.ids, self.options = ids, options
        self.x: Tensor = torch.randn(channels, height // scale, width // scale, generator=draws)
        self.texts: Batch | None = None
        self.shows = False
        self.nbytes = 4 * (3 * height * width + 3 * self.x.numel())
        self._shape = (3, height // scale * scale, width // scale * scale)
        self._sigmas = sigmas
        self._step = 0
        self._clean = self.x
        self._made: Any = None

    @property
    def now(self) -> Tensor:
        """The latents of the next forward: noisy ones, or those to be shown."""
        return self._clean if self.shows else self.x

    @property
    def sigma(self) -> float:
        """The share of noise before the next step."""
        return float(self._sigmas[self._step])

    def advance(self, found: Tensor) -> None:
        """Take a step by its velocity, or a picture; more numbers than these do not count."""
        if self.shows:
            self.shows, self.done = False, self._step == self._steps
            size = torch.Size(self._shape).numel()
            self._made = self._shown(found[:size].view(self._shape))
            return
        velocity = found[: self.x.numel()].view_as(self.x).float().cpu()
        now, following = self._sigmas[self._step : self._step + 2].tolist()
        self._clean = self.x - now * velocity
        self.x = self.x + (following - now) * velocity
        self._step += 1
        if self._step == self._steps:
            self._clean = self.x
        parts = self.options.previews + 1
        before, after = ((step * parts) // self._steps for step in (self._step - 1, self._step))
        self.shows = after > before

    def taken(self) -> Any:
        """Take a preview, or at the end the picture."""
        made, self._made = self._made, None
        return made

    def facts(self) -> Mapping[str, Any]:
        """Return the steps and the seed."""
        return {"steps": self._step, "seed": self.options.seed}

    def close(self) -> None:
        """Release the latents."""
        self.x = self._clean = self.x.new_empty(0)

    @property
    def _steps(self) -> int:
        return len(self._sigmas) - 1

    def _shown(self, picture: Tensor) -> Any:
        if self.options.form == "raw":
            return self._clean.numpy()
        if self.options.form == "pixels":
            return picture.float().cpu().clamp(-1, 1).numpy()
        values = (picture.float().cpu() / 2 + 0.5).clamp(0, 1)
        pixels = (values * 255).round().byte().permute(1, 2, 0).numpy()
        return data_uri(Image.fromarray(pixels), self.options.form)


def advances_of(module: Pipeline, paintings: Sequence[Painting]) -> Tensor:
    """Compute what `Painting.advance` is given, those of one shape in one forward.

    Returns:
        [paintings, most numbers]; the numbers of each, then zeros.
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, each in enumerate(paintings):
        needs_two = module.guides_by_two and each.options.guidance != 1
        groups.setdefault((each.shows, needs_two, *each.now.shape), []).append(place)
    found: dict[int, Tensor] = {}
    for (shows, needs_two, *_), places in groups.items():
        some = [paintings[place] for place in places]
        with batch_rows(torch.tensor(places)):
            rows = _pictures(module, some) if shows else _velocities(module, some, needs_two)
        found |= zip(places, rows.flatten(1), strict=True)
    most = max(len(row) for row in found.values())
    return torch.stack(
        [torch.nn.functional.pad(found[n], (0, most - len(found[n]))) for n in sorted(found)]
    )


def _pictures(module: Pipeline, paintings: Sequence[Painting]) -> Tensor:
    device = next(module.parameters()).device
    return module.pictures_of(torch.stack([each.now for each in paintings]).to(device)).float()


def _velocities(module: Pipeline, paintings: Sequence[Painting], needs_two: bool) -> Tensor:
    device = next(module.parameters()).device
    x = torch.stack([each.now for each in paintings]).to(device)
    sigma = torch.tensor([each.sigma for each in paintings], device=device)
    guidance = torch.tensor([each.options.guidance for each in paintings], device=device)
    texts = [_texts_of(module, each, device) for each in paintings]
    prompt, empty = (
        {name: torch.stack([each[name][row] for each in texts]) for name in texts[0]}
        for row in (0, 1)
    )
    velocity: Tensor = module(x, sigma, prompt, guidance).float()
    if needs_two:
        plain = module(x, sigma, empty, guidance).float()
        velocity = plain + guidance.view(-1, 1, 1, 1) * (velocity - plain)
    return velocity


def _texts_of(module: Pipeline, painting: Painting, device: torch.device) -> Batch:
    if painting.texts is None:
        ids = {name: each.to(device) for name, each in painting.ids.items()}
        painting.texts = module.texts(ids)
    return painting.texts
