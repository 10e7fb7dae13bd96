"""A head that is scaled, averaged or calibrated gives outputs that are."""

import torch

from cog_adapt.runner.heads.calibration import Calibration
from cog_adapt.runner.heads.linear_head import LinearHead


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_heads_are_averaged_as_their_outputs_are():
    one, other = (LinearHead(drawn(3, 4) + at, drawn(3) - at) for at in (0, 1))
    features = drawn(5, 4)
    expected = 0.75 * one(features) + 0.25 * other(features)
    torch.testing.assert_close(one.averaged(other, 0.25)(features), expected)


def test_a_head_is_scaled_and_calibrated_as_its_outputs_are():
    head, features = LinearHead(drawn(3, 4), drawn(3)), drawn(5, 4)
    torch.testing.assert_close(head.scaled(2.5)(features), head(features) * 2.5)
    calibration = Calibration(0.5, torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64))
    found = head.calibrated(calibration)
    torch.testing.assert_close(found(features).double(), calibration(head(features)))
    assert found.bias.dtype is torch.float32
