"""Which names an adapter may have."""

import pytest

from cog_adapt.runner.errors import InputError
from cog_adapt.runner.storage.names import check_name, is_id, not_found


def test_a_very_long_reference_is_shown_in_short():
    assert len(str(not_found("a" * 10_000))) < 400


@pytest.mark.parametrize("name", ["", "a@v1", ".a", "-a", "a/b", "a" * 65, "0" * 16, 3, None, "é"])
def test_a_name_that_no_adapter_may_have_is_refused(name):
    with pytest.raises(InputError, match="a name has 1 to 64 letters"):
        check_name(name)


def test_a_name_that_an_adapter_may_have():
    assert check_name("Support-2.b_c") == "Support-2.b_c"
    assert not is_id("Support-2.b_c")
