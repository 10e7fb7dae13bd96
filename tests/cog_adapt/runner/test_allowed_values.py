"""Values beyond their limits are refused, with the limit; `test_config` has the recipes' own."""

import pytest

from cog_adapt.runner.allowed_values import check_globs, check_range
from cog_adapt.runner.errors import InputError


@pytest.mark.parametrize("value", [0.5, float("nan"), 3, True])
def test_a_number_outside_its_range_is_refused(value):
    check_range("rank", 1, 1, 2)
    with pytest.raises(InputError, match=r"rank is .*; allowed: 1 to 2\."):
        check_range("rank", value, 1, 2)


def test_globs_are_taken_and_expressions_and_long_texts_refused():
    check_globs("match:encoder.[01].*,*.bias", "encoder.[01].*,*.bias")
    with pytest.raises(InputError, match="after 'match:' come globs of parameter names"):
        check_globs("match:.*", ".*")
    with pytest.raises(InputError, match="201 characters after 'match:'; the limit is 200"):
        check_globs("match:" + "a" * 201, "a" * 201)
