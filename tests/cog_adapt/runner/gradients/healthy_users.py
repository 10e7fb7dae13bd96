"""Healthy models as users write them, of which a part is not reached by every probe."""

import torch
from torch import nn

from tests.cog_adapt.runner.gradients.cases import HealthyModels

HEALTHY = HealthyModels()
healthy = HEALTHY.model


@healthy()
class OneToken(nn.Module):
    """Attention over one token: the softmax of one number is 1, whatever queries and keys are."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(6, 6) for _ in range(3))
        self.out = nn.Linear(6, 2)

    def forward(self, x):
        x = x[:, None]
        weights = (self.q(x) @ self.k(x).mT).softmax(-1)
        return self.out((weights @ self.v(x))[:, 0])
