"""The loss of flow matching: the velocity's error at a noise level that is drawn for each row."""

from collections.abc import Callable

import torch
from torch import Tensor

from cog_adapt import row_generators

_MEAN = 0.6  # of a noise level's logit: more noise than picture, where a style is decided


def flow_loss(clean: Tensor, estimate: Callable[[Tensor, Tensor], Tensor], least: float) -> Tensor:
    """Return the mean squared error of the velocity.

    A row's draws depend on the step's seed and the row alone, not on what is in the batch.

    Args:
        clean: rows without noise, [n, ...].
        estimate: of noisy rows, [n, ...], and shares of noise, [n]: the rows without noise.
        least: the share of noise below which errors are not weighted up any more.

    Returns:
        [n].
    """
    size = clean[0].numel()
    draws = torch.stack(
        [torch.randn(1 + size, generator=g, device=g.device) for g in row_generators()]
    )
    sigma, noise = torch.sigmoid(_MEAN + draws[:, 0]), draws[:, 1:].view_as(clean)
    share = sigma.view(-1, *[1] * (clean.dim() - 1))
    error = estimate((1 - share) * clean + share * noise, sigma) - clean
    return error.square().flatten(1).mean(1) * sigma.clamp_min(least).pow(-2)
