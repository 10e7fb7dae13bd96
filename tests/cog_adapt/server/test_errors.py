"""What errors carry beside their message."""

import pytest

from cog_adapt.server import errors


@pytest.mark.parametrize("name", ["JsonError", "InvalidRequest"])
def test_an_error_about_a_value_says_which(name):
    error = getattr(errors, name)("why", ("body", "id"), "type_error")
    assert (str(error), error.location, error.kind) == ("why", ("body", "id"), "type_error")
    assert (getattr(errors, name)("why").location, getattr(errors, name)("why").kind) == (
        (),
        "value_error",
    )


def test_a_full_queue_says_when_to_come_back():
    error = errors.QueueFull("full", retry_after=3)
    assert (str(error), error.retry_after) == ("full", 3)
