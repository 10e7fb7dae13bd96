"""An adapter is named by id, by name, or by name and version."""

import pytest

from cog_adapt.runner.errors import AdapterNotFound, InputError
from cog_adapt.runner.storage.names import Reference, check_name, is_id, parse_reference


def test_a_reference_is_an_id_or_a_name_with_perhaps_a_version():
    assert parse_reference("0123456789abcdef") == Reference(id="0123456789abcdef")
    assert parse_reference("support") == Reference(name="support")
    assert parse_reference("a.b_c-1@v12") == Reference(name="a.b_c-1", version=12)


@pytest.mark.parametrize("text", ["", "../x", "a b", "a@", "a@v0", "a@v01", "@v1", "a" * 65])
def test_what_can_be_no_name_is_not_found(text):
    with pytest.raises(AdapterNotFound, match="is not known here; an id has 16 hex digits"):
        parse_reference(text)


def test_a_very_long_reference_is_shown_in_short():
    with pytest.raises(AdapterNotFound) as caught:
        parse_reference("a" * 10_000)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["", "a@v1", ".a", "-a", "a/b", "a" * 65, "0" * 16, 3, None, "é"])
def test_a_name_that_no_adapter_may_have_is_refused(name):
    with pytest.raises(InputError, match="a name has 1 to 64 letters"):
        check_name(name)


def test_a_name_that_an_adapter_may_have():
    assert check_name("Support-2.b_c") == "Support-2.b_c"
    assert not is_id("Support-2.b_c")
