"""All healthy models: none of them may fail."""

from gradient_check.tests import (
    faults_serving,
    healthy_blocks,
    healthy_idioms,
    healthy_layers,
    healthy_models,
    healthy_residual,
    healthy_users,
)
from gradient_check.tests.cases import Healthy

HEALTHY: list[Healthy] = [
    *healthy_models.HEALTHY,
    *healthy_blocks.HEALTHY,
    *healthy_layers.HEALTHY,
    *healthy_residual.HEALTHY,
    *healthy_idioms.HEALTHY,
    *healthy_users.HEALTHY,
    *faults_serving.HEALTHY,
    *faults_serving.PASSES,
]
