"""All planted faults: models whose gradients go wrong, each with the code and place to be named."""

from gradient_check.tests import (
    faults_conv_graph,
    faults_conv_values,
    faults_graph,
    faults_idioms,
    faults_kept,
    faults_module,
    faults_residual_graph,
    faults_residual_values,
    faults_run,
    faults_second_order,
    faults_serving,
    faults_training,
    faults_users,
    faults_values,
)
from gradient_check.tests.cases import Fault

FAULTS: list[Fault] = [
    *faults_graph.FAULTS,
    *faults_values.FAULTS,
    *faults_module.FAULTS,
    *faults_run.FAULTS,
    *faults_conv_graph.FAULTS,
    *faults_conv_values.FAULTS,
    *faults_training.FAULTS,
    *faults_residual_graph.FAULTS,
    *faults_residual_values.FAULTS,
    *faults_idioms.FAULTS,
    *faults_users.FAULTS,
    *faults_kept.FAULTS,
    *faults_second_order.FAULTS,
    *faults_serving.FAULTS,
]
