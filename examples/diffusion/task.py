"""Letters drawn in a style, by a flow-matching transformer that learns the style from a few.

An example is a picture of a letter; what is asked is a text, which is set in the learned style. An
adapter has LoRA's pairs, and the tokens of a style, which begin as the network reads them from the
letters.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from cog_adapt import Batch, Example, Recipe, on_device
from examples.diffusion.drawing import Drawing, DrawOptions, estimates_of, first_estimates
from examples.diffusion.flow import flow_loss
from examples.diffusion.letters import PROBE, TRIGGER, Letter, encoded, letter_row, letters_of
from examples.diffusion.network import LEAST_SIGMA, Drawer, load_network
from examples.diffusion.pictured import PicturedTask


class Letters(PicturedTask):
    """Inputs are texts, or in examples a letter with its picture; targets name styles."""

    lora_targets = r".*transformer_blocks\..*(to_[qkv]|to_(add_)?out.*|add_._proj|net\..*|proj_.*)"
    head = r"style\.weight"
    rates = MappingProxyType({r"style\.weight": 20.0})  # a style's tokens are far from others'
    unused = r"no_style|reader\..*"
    options = DrawOptions()
    lora_scale = 0.5  # of the whole, letters that were not given are legible less often
    recipe = Recipe(batch_size=16, repeats=2, learning_rate=1e-3, ema=0.9)

    def load(self) -> Drawer:
        return load_network()

    def example(self, row: Mapping[str, Any]) -> Example:
        return Example(letter_row(row), str(row.get("style", TRIGGER)))

    def labels(self, examples: Sequence[Example]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(each.target) for each in examples)) or (TRIGGER,)

    def start(self, module: Any, labels: Sequence[str], examples: Sequence[Example]) -> Batch:
        """Read each style from its letters."""
        rows = []
        for label in labels:
            given = [self.decode_input(each.input) for each in examples if each.target == label]
            read = on_device(self.encode(given), module.no_style.device) if given else None
            rows.append((module.read_style(**read) if read else module.no_style).float())
        return {"style.weight": torch.stack(rows)} if rows else {}

    def decode_input(self, value: Any) -> Any:
        """Return a letter with its pixels; a text as it is, once its letters are known."""
        return Letter.read(value) if isinstance(value, Mapping) else letters_of(value) and value

    def encode(self, inputs: Sequence[Any]) -> Batch:
        return encoded(inputs)

    def loss(self, module: Any, batch: Batch, targets: Tensor) -> Tensor:
        style, letter = module.style_of(targets), batch["letter"]
        return flow_loss(
            batch["picture"], lambda x, sigma: module(x, sigma, letter, style), LEAST_SIGMA
        )

    def begin(self, input: Any, options: DrawOptions) -> Drawing:
        return Drawing(input, options)

    def next_logits(self, module: Any, generations: Sequence[Any]) -> Tensor:
        return estimates_of(module, generations)

    def predict(
        self, module: Any, batch: Batch, labels: Sequence[str], options: DrawOptions
    ) -> list[Any]:
        return first_estimates(module, batch)

    def probe(self) -> list[Example]:
        return [Example(letter, TRIGGER) for letter in PROBE]
