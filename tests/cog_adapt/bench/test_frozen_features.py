"""Frozen features are of what a task decodes, as in its runner."""

import torch
from torch import nn

from bench.frozen_features import FrozenFeatures
from tests.cog_adapt.runner.featured import Featured


class Decoding(Featured):
    """Inputs are numbers as texts."""

    def decode_input(self, value):
        return float(value)

    def encode(self, inputs):
        return {"x": torch.tensor(inputs)[:, None]}

    def features(self, module, batch):
        return 2 * batch["x"]


def test_inputs_are_decoded_before_they_are_encoded():
    frozen = FrozenFeatures(Decoding(), nn.Linear(1, 1))
    assert frozen.computed(["1.5", "2"]).tolist() == [[3.0], [4.0]]
