"""The tree of errors, as its module draws it."""

import pytest

from cog_adapt.runner import errors

TREE = {
    "SetupError": ("RunnerError",),
    "ConfigError": ("SetupError", "ValueError"),
    "WeightsError": ("SetupError",),
    "GradientFlowError": ("SetupError",),
    "InputError": ("RunnerError", "ValueError"),
    "AdapterNotFound": ("InputError",),
    "AdaptationError": ("RunnerError",),
    "PredictionError": ("RunnerError",),
    "TaskError": ("RunnerError",),
    "StoreError": ("RunnerError",),
    "UnavailableError": ("RunnerError",),
    "ModeError": ("RunnerError", "RuntimeError"),
}


@pytest.mark.parametrize("name", TREE)
def test_an_error_stands_where_the_tree_has_it(name):
    assert tuple(base.__name__ for base in getattr(errors, name).__bases__) == TREE[name]
    assert name in errors.__doc__


def test_the_tree_is_whole():
    defined = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert defined == {*TREE, "RunnerError"}
