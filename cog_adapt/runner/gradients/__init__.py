"""The gradient test under the name that it had here; it is the package `gradient_check` now."""

from gradient_check import Check as Check
from gradient_check import Finding as Finding
from gradient_check import GradientReport as GradientReport
from gradient_check import check_gradients as check_gradients

__all__ = ["Check", "Finding", "GradientReport", "check_gradients"]
