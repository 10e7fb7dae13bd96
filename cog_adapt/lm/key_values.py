"""Keys and values of growing answers, in tensors of each answer; and attention over several.

A forward over N answers has one new token of each answer. The linear layers work on all N tokens at
once; keys and values are written to each answer's own tensors, and each answer attends only to its
own keys. So lengths differ without padding, an answer joins or leaves without a copy of the others'
data, and an answer's memory is freed with the answer. This module knows no token and no runner.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, Cache, PretrainedConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "cog_adapt_rows"
_FLOAT32 = 4


class KeyValues:
    """One answer's keys and values, of all layers.

    Args:
        capacity: tokens that fit.

    Attributes:
        length: valid tokens; a forward writes behind them, and may repeat it.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.length = 0
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def nbytes(self) -> int:
        """Return the bytes held."""
        return sum(tensor.nbytes for pair in self._layers.values() for tensor in pair)

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write new tokens' (1, heads, tokens, width); return those of all tokens so far."""
        if layer not in self._layers:
            self._layers[layer] = (self._empty(keys), self._empty(values))
        end = self.length + keys.shape[2]
        kept = self._layers[layer]
        for whole, new in zip(kept, (keys, values), strict=True):
            whole[:, :, self.length : end] = new
        return kept[0][:, :, :end], kept[1][:, :, :end]

    def clear(self) -> None:
        """Release all memory."""
        self._layers.clear()

    def _empty(self, like: Tensor) -> Tensor:
        return like.new_empty((*like.shape[:2], self.capacity, like.shape[3]))


def bytes_per_token(config: PretrainedConfig) -> int:
    """Return the most bytes of a token's keys and values, in float32."""
    text = config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return 2 * _FLOAT32 * int(text.num_hidden_layers) * int(heads) * int(width)


class AnswerRows(Cache):  # type: ignore[misc]  # transformers has no types
    """The cache of one forward: a row for each answer, stored in its own `KeyValues`.

    Args:
        stores: of the rows.
        apart: whether each row attends to its own tokens alone; else there is one row, whose tokens
            may be many.
    """

    def __init__(self, stores: Sequence[KeyValues], *, apart: bool) -> None:
        super().__init__(layers=[])
        self._stores = stores
        self._apart = apart

    def update(
        self,
        key_states: Tensor,
        value_states: Tensor,
        layer_idx: int,
        *args: Any,  # noqa: ANN401 - transformers' own
        **kwargs: Any,  # noqa: ANN401 - transformers' own
    ) -> Any:  # noqa: ANN401 - what `attend` takes
        """Write each row's keys and values; return all, as tuples by row if rows are apart."""
        rows = [
            store.write(layer_idx, key_states[row : row + 1], value_states[row : row + 1])
            for row, store in enumerate(self._stores)
        ]
        return tuple(zip(*rows, strict=True)) if self._apart else rows[0]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the tokens before this forward."""
        return max(store.length for store in self._stores)

    def get_query_offset(self, layer_idx: int = 0) -> int:
        """Return the position of the first new token."""
        return self.get_seq_length()

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Return the number of tokens including new ones, and the first one's position."""
        return self.get_seq_length() + query_length, 0


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor | Sequence[Tensor],
    value: Tensor | Sequence[Tensor],
    attention_mask: Tensor | None,
    **kwargs: Any,  # noqa: ANN401 - transformers' own
) -> tuple[Tensor, None]:
    """Attend as transformers' `sdpa` does; separate rows one after the other, without a mask."""
    if isinstance(key, Tensor):
        whole = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
        return whole[0], None
    first = -(kwargs.get("sliding_window") or 0)
    outputs = [
        sdpa_attention_forward(
            module, query[row : row + 1], keys[:, :, first:], values[:, :, first:], None, **kwargs
        )[0]
        for row, (keys, values) in enumerate(zip(key, value, strict=True))
    ]
    return torch.cat(outputs), None


AttentionInterface.register(ATTENTION, attend)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
