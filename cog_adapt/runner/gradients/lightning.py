"""The Lightning callback under the name that it had here."""

from gradient_check.hooks.lightning import GradientFlowCheck as GradientFlowCheck
