"""The gradient test is importable by the names that it had in the runner."""

from importlib import import_module

import pytest

import gradient_check


def test_the_former_package_offers_the_gradient_test():
    former = import_module("cog_adapt.runner.gradients")
    assert former.__all__ == ["Check", "Finding", "GradientReport", "check_gradients"]
    for name in former.__all__:
        assert getattr(former, name) is getattr(gradient_check, name)


@pytest.mark.parametrize(
    ("hook", "library"), [("lightning",) * 2, ("trainer_callback", "accelerate")]
)
def test_the_former_modules_of_the_hooks_offer_the_callbacks(hook, library):
    pytest.importorskip(library)
    former = import_module(f"cog_adapt.runner.gradients.{hook}")
    today = import_module(f"gradient_check.hooks.{hook}")
    assert former.GradientFlowCheck is today.GradientFlowCheck
