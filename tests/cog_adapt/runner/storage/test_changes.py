"""What an owner changes is checked by name and by value."""

import pytest

from cog_adapt.runner.errors import InputError
from cog_adapt.runner.storage.changes import apply_changes, checked_changes
from cog_adapt.runner.storage.metadata import describe
from tests.cog_adapt.runner.storage.made import adapter_of

KNOWN = describe(adapter_of(1), size=100, owner="ann")


def test_sound_changes_are_taken():
    changes = {"notes": "n", "pinned": True, "shared": ["b", "b", "*"], "expires_at": None}
    assert checked_changes(changes) == changes | {"shared": ("b", "*")}
    changed = apply_changes(
        KNOWN, checked_changes(changes | {"name": "x"}), lambda name, above=0: 7
    )
    assert (changed.name, changed.version, changed.pinned) == ("x", 7, True)
    assert apply_changes(changed, {"name": None}, lambda name, above=0: 8).version is None
    assert apply_changes(changed, {"name": "x"}, lambda name, above=0: 8).version == 7


def test_a_time_is_noted_in_utc():
    times = ("2027-01-01T12:00:00+02:00", "2027-01-01T10:00:00Z")
    for time in times:
        checked = checked_changes({"expires_at": time})
        assert checked == {"expires_at": "2027-01-01T10:00:00.000000+00:00"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "x", "bytes": 1}, "bytes, id cannot be changed; name, notes, expires_at"),
        ({"name": "a b"}, "a name has 1 to 64"),
        ({"name": 1}, "a name has"),
        ({"notes": 1}, "notes is no text of at most 10,000"),
        ({"notes": "a" * 10_001}, "notes is no text of at most 10,000"),
        ({"notes": "\ud800"}, "half a surrogate pair"),
        ({"expires_at": "tomorrow"}, "expires_at is 'tomorrow'; it is a time"),
        ({"expires_at": "2027-01-01T00:00:00"}, "with its time zone"),
        ({"expires_at": 5}, "expires_at is 5"),
        ({"expires_at": "0001-01-01T00:00:00+14:00"}, "no time in UTC"),
        ({"pinned": 1}, "pinned is 1; it is true or false"),
        ({"pinned": None}, "pinned is None"),
        ({"shared": "*"}, "shared is no list"),
        ({"shared": None}, "shared is no list"),
        ({"shared": ["a"] * 1001}, "at most 1,000 owners"),
        ({"shared": [""]}, "an owner is a text of 1 to 256"),
        ({"shared": ["a" * 257]}, "an owner is a text"),
        ({"shared": [1]}, "an owner is a text"),
        ({"shared": ["\ud800"]}, "half a surrogate pair"),
    ],
)
def test_what_may_not_be_is_refused_in_words(changes, message):
    with pytest.raises(InputError, match=message) as caught:
        checked_changes(changes)
    assert len(str(caught.value)) < 400
