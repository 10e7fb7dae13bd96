"""Adapters are found by place, id, name and version."""

from dataclasses import replace

import pytest

from cog_adapt.adapter_rule import Asker, parse_reference
from cog_adapt.runner.storage.index import Index, place_of
from cog_adapt.runner.storage.metadata import Metadata, Provenance
from tests.cog_adapt.runner.storage.made import adapter_of

PAST = "2000-01-01T00:00:00.000000+00:00"


@pytest.fixture
def index():
    return Index()


def add(index, number, owner="ann", **known):
    metadata = Metadata.of(adapter_of(number), 100, owner, Provenance())
    key = (place_of(owner), metadata.id)
    index[key] = replace(metadata, **known)
    return key


def found(index, text, owner="ann"):
    return index.find(parse_reference(text), Asker(owner))


def test_a_place_is_a_digest_that_can_be_a_folder():
    assert place_of("") == ""
    assert len(place_of("../../etc")) == 32
    assert place_of("ann") != place_of("Ann")


def test_the_latest_version_that_is_not_expired_is_found(index):
    first = add(index, 1, name="x", version=1)
    second = add(index, 2, name="x", version=2)
    assert found(index, "x") == second
    index[second] = replace(index[second], expires_at=PAST)
    assert found(index, "x") == first
    for gone in ("x@v2", second[1]):
        assert found(index, gone) is None


def test_a_name_that_was_taken_off_finds_nothing(index):
    key = add(index, 1, name="x", version=1)
    index[key] = replace(index[key], name="y")
    assert found(index, "y") == key
    assert found(index, "x") is None
    del index[key]
    assert (len(index), key in index) == (0, False)
    assert index.last_versions(key[0]) == {"x": 1, "y": 1}
