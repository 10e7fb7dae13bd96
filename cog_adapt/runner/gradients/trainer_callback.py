"""The callback of a `Trainer` under the name that it had here."""

from gradient_check.hooks.trainer_callback import GradientFlowCheck as GradientFlowCheck
