"""The callback of a Hugging Face `Trainer`, under its earlier module name."""

from gradient_check.hooks.trainer_callback import GradientFlowCheck as GradientFlowCheck
