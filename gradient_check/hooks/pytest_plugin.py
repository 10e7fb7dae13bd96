"""A pytest fixture and a marker, both `gradients_flow`: a test that gradients flow in a model.

Installing the package registers this plugin. It imports torch only for a test that uses it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gradient_check.findings.report import GradientReport

_MARKER = "gradients_flow"
# the names of `check_gradients`
_PARAMETERS = {"model": "module", "batch": "probe", "loss": "loss"}


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(model, batch, loss, **options): before the test, check that gradients flow; "
        "a text among the three names a fixture, options are those of check_gradients",
    )


@pytest.fixture(name=_MARKER)
def _gradients_flow() -> "Callable[..., GradientReport]":
    """Check that gradients flow: `gradients_flow(model, batch, loss, **options)`.

    The arguments are those of `check_gradients`, where `model` and `batch` are called `module` and
    `probe`; both names are taken. Returns the report; the test fails with its words
    if the check does.
    """
    return check_flow


def check_flow(*args: Any, **options: Any) -> "GradientReport":  # noqa: ANN401
    """Check gradients, and fail the running test with the report's words if they do not flow."""
    __tracebackhide__ = True
    from gradient_check.check import check_gradients

    named = {_PARAMETERS[n]: options.pop(n) for n in _PARAMETERS if n in options}
    # it refuses arguments that are given twice
    check: Callable[..., GradientReport] = check_gradients
    report = check(*args, **named, **options)
    if not report.passed:
        pytest.fail(str(report), pytrace=False)
    return report


def pytest_itemcollected(item: pytest.Item) -> None:
    """Set up the fixtures that a marker names with the test's own."""
    marker = item.get_closest_marker(_MARKER)
    if marker is not None and isinstance(item, pytest.Function):
        values = (*marker.args, *_subjects(marker).values())
        named = [value for value in values if isinstance(value, str)]
        item.fixturenames.extend(name for name in named if name not in item.fixturenames)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Check the gradients of a marked test, before its body runs."""
    __tracebackhide__ = True
    marker = pyfuncitem.get_closest_marker(_MARKER)
    if marker is None:
        return
    given = pyfuncitem.funcargs
    subjects = {n: given[v] if isinstance(v, str) else v for n, v in _subjects(marker).items()}
    args = (given[v] if isinstance(v, str) else v for v in marker.args)
    check_flow(*args, **{**marker.kwargs, **subjects})


def _subjects(marker: pytest.Mark) -> dict[str, Any]:
    """Return the model, batch and loss that a marker gives by name, in which a text is a fixture.

    A text among the other options, such as a precision, is itself.
    """
    names = (*_PARAMETERS, *_PARAMETERS.values())
    return {name: value for name, value in marker.kwargs.items() if name in names}
