"""The Lightning callback, under its earlier module name."""

from gradient_check.hooks.lightning import GradientFlowCheck as GradientFlowCheck
