"""What tasks that learn from pictures have in common."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from cog_adapt import GenerativeTask
from examples.image.pictures import decodes_quickly, pixel_count


class PicturedTask(GenerativeTask):
    """Inputs are texts, or in examples mappings with a picture's file; noise is drawn by row."""

    random_loss = True
    shares_forwards = True
    lora_scale = 1.0  # how strongly LoRA's pairs count if a request does not say

    def decoding_cost(self, value: Any) -> int:
        return pixel_count(value["picture"]) if isinstance(value, Mapping) else 0

    def decodes_quickly(self, value: Any) -> bool:
        return not isinstance(value, Mapping) or decodes_quickly(value["picture"])

    def accept(self, generation: Any, logits: Tensor) -> None:
        generation.advance(logits)

    def joined(self, pieces: Sequence[Any]) -> Any:
        return pieces[-1]
