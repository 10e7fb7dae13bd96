"""The gradient self-test: checks every trained parameter's gradient and finds causes of faults."""

from cog_adapt.runner.gradients.check import check_gradients
from cog_adapt.runner.gradients.report import Check, Finding, GradientReport

__all__ = ["Check", "Finding", "GradientReport", "check_gradients"]
