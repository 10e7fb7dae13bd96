"""Styles that no font has: a font's letters slanted, narrowed, fattened, outlined or roughened.

Every letter of a font is changed alike, at twice the final size, so that nothing is blurred.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

_UNCHANGED = 0.4
_ABOVE, _BELOW = (..., slice(-1), slice(None)), (..., slice(1, None), slice(None))
_BASELINE = 23 / 32 * 2 - 1  # in the grid's units: -1 is the top, 1 the bottom


def varied(letters: Tensor, draws: torch.Generator) -> Tensor:
    """Return letters in styles of their own, one for each font.

    Args:
        letters: [fonts, k, 64, 64] in [0, 1]; 1 is ink.
        draws: decides; fonts are left as they are with a probability of 40 %.

    Returns:
        [fonts, k, 32, 32] in [0, 1].
    """
    is_changed = torch.rand(len(letters), generator=draws) > _UNCHANGED

    def often(share: float) -> Tensor:
        return is_changed & (torch.rand(len(letters), generator=draws) < share)

    def between(least: float, most: float, share: float, otherwise: float) -> Tensor:
        drawn = least + (most - least) * torch.rand(len(letters), generator=draws)
        return torch.where(often(share), drawn, torch.tensor(otherwise)).view(-1, 1, 1, 1)

    warped = _warped(
        letters,
        _Warp(
            shear=between(-0.35, 0.35, 0.5, 0.0),
            width=between(0.65, 1.1, 0.5, 1.0),
            height=between(0.7, 1.0, 0.3, 1.0),
            bend=between(-0.25, 0.25, 0.3, 0.0),
            rough=between(0.0, 0.06, 0.2, 0.0),
        ),
        draws,
    )
    weighted = _weighted(warped, between(-1.5, 1.5, 0.5, 0.0))
    outlined = (_fattened(_fattened(weighted)) - weighted).clamp_min(0)
    striped = weighted * (torch.arange(64) // 3 % 2).view(-1, 1)
    coarse = F.interpolate((F.avg_pool2d(weighted, 4) > 0.5).float(), scale_factor=4.0)
    for other, share in ((outlined, 0.05), (striped, 0.03), (coarse, 0.05)):
        weighted = torch.where(often(share).view(-1, 1, 1, 1), other, weighted)
    return F.avg_pool2d(weighted, 2)


@dataclass(frozen=True)
class _Warp:
    """How the ink of each font moves, [fonts, 1, 1, 1].

    Attributes:
        shear: columns for each row, in heights.
        width: of the letters.
        height: of the letters above the baseline.
        bend: how much lower the middle of a capital goes, which is where small letters end.
        rough: the mean way that ink moves by chance.
    """

    shear: Tensor
    width: Tensor
    height: Tensor
    bend: Tensor
    rough: Tensor


def _warped(letters: Tensor, warp: _Warp, draws: torch.Generator) -> Tensor:
    fonts, count = letters.shape[:2]
    axis = (torch.arange(64) + 0.5) / 32 - 1
    x, y = axis.view(1, 1, 1, 64), axis.view(1, 1, 64, 1)
    above = (_BASELINE - y) / warp.height  # from the baseline upwards
    middle = (above * (1.3 - above)).clamp_min(0) / 0.4225  # 1 halfway up a capital
    source_y = _BASELINE - (above + warp.bend * middle * (above > 0))
    source_x = (x - warp.shear * (_BASELINE - y - 0.6)) / warp.width
    shape = (fonts, count, 64, 64)
    grid = torch.stack([source_x.expand(shape), source_y.expand(shape)], -1)
    noise = torch.randn(fonts * count, 2, 10, 10, generator=draws)
    smooth = F.interpolate(noise, size=(64, 64), mode="bicubic").permute(0, 2, 3, 1)
    grid = grid + smooth.view(fonts, count, 64, 64, 2) * warp.rough.unsqueeze(-1)
    moved = F.grid_sample(letters.reshape(-1, 1, 64, 64), grid.flatten(0, 1), align_corners=False)
    return moved.view_as(letters)


def _weighted(letters: Tensor, weight: Tensor) -> Tensor:
    """Fatten strokes by so many pixels of 64, or thin them."""
    fat, thin = _fattened(letters), 1 - _fattened(1 - letters)
    fatter = _fattened(fat)
    up, down = weight.clamp_min(0), (-weight).clamp(0, 0.7)
    one, two = up.clamp(max=1), (up - 1).clamp_min(0)
    grown = letters + one * (fat - letters) + two * (fatter - fat)
    shrunk = letters + down * (thin - letters)
    return torch.where(weight >= 0, grown, shrunk)


def _fattened(letters: Tensor) -> Tensor:
    """Give each pixel the most ink of the 3 x 3 around it, four times as fast as `max_pool2d`."""
    for left, right in (((..., slice(1, None)), (..., slice(-1))), (_BELOW, _ABOVE)):
        grown = letters.clone()
        grown[right] = torch.maximum(grown[right], letters[left])
        grown[left] = torch.maximum(grown[left], letters[right])
        letters = grown
    return letters
