"""What a self-test's report says."""

import pytest

from cog_adapt.server.service.self_test import outcome


@pytest.mark.parametrize(
    ("report", "passed"),
    [
        (None, None),
        ({"passed": True}, True),
        ({"passed": True, "level": "quick"}, True),
        ({"passed": False, "level": "full"}, False),
        ({"passed": "yes"}, False),
        ({}, False),
        ({"passed": None, "level": "off"}, None),
    ],
)
def test_only_a_test_that_ran_has_passed_or_failed(report, passed):
    assert outcome(report) is passed
