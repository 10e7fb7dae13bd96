"""The bounds of a page."""

import pytest
from pydantic import TypeAdapter

from cog_adapt.server.api.paging import MOST_A_PAGE, Limit
from cog_adapt.server.errors import InvalidRequest

limits = TypeAdapter(Limit)


@pytest.mark.parametrize(("text", "limit"), [("1", 1), ("007", 7), (str(MOST_A_PAGE), MOST_A_PAGE)])
def test_a_limit_is_a_whole_number(text, limit):
    assert limits.validate_python(text) == limit


@pytest.mark.parametrize("text", ["", "0", "1001", "-1", "1.5", "x", "9" * 5000])
def test_another_is_refused_with_its_bounds(text):
    with pytest.raises(InvalidRequest, match=r"allowed: 1 to 1000\.") as refused:
        limits.validate_python(text)
    assert refused.value.location == ("query", "limit")
