"""The gradient self-test: does every trained parameter get the right gradient, and if not, why."""

from cog_adapt.runner.gradients.check import check_gradients
from cog_adapt.runner.gradients.report import Check, Finding, GradientReport

__all__ = ["Check", "Finding", "GradientReport", "check_gradients"]
