"""What is known of an adapter goes to a file and comes back as it was."""

import json
from dataclasses import fields, replace

import torch

from cog_adapt.adapter_metadata import AdapterMetadata, Provenance
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.storage.metadata import describe, digest_of, now, versions
from tests.cog_adapt.runner.storage.made import adapter_of

KNOWN = describe(
    adapter_of(1),
    size=100,
    owner="ann",
    made=Provenance(
        recipe={"method": "head"},
        examples=3,
        examples_digest="ab",
        score_before=0.1,
        score_after=0.9,
        parent="p",
    ),
)


def test_an_adapter_describes_itself():
    assert (KNOWN.id, KNOWN.bytes, KNOWN.tensors) == (adapter_of(1).id, 100, 1)
    assert (KNOWN.base, KNOWN.labels) == ("0" * 16, ("a", "b"))
    assert (KNOWN.examples, KNOWN.parent, KNOWN.score_after) == (3, "p", 0.9)
    assert KNOWN.versions["torch"] == torch.__version__
    assert {"torch", "transformers", "cog_adapt"} <= set(versions())


def test_what_nobody_said_is_null_but_the_method():
    known = describe(adapter_of(1), size=100, owner="").to_json()
    assert known["recipe"] == {"method": "head"}
    assert known["examples"] is known["parent"] is known["name"] is None


def test_it_comes_back_as_it_was_and_damage_is_noticed():
    known = replace(KNOWN, shared=("bob",), name="support", version=2)
    text = json.dumps(known.to_json()).encode()
    assert AdapterMetadata.from_json(text) == known
    for damaged in (b"", b"[]", b"{}", b"\xff", text[:-9]):
        assert AdapterMetadata.from_json(damaged) is None
    assert set(known.to_json()) == {each.name for each in fields(AdapterMetadata)}


def test_pinned_and_named_ones_are_kept():
    assert not KNOWN.is_kept
    assert replace(KNOWN, pinned=True).is_kept
    assert replace(KNOWN, name="support").is_kept


def test_times_sort_as_texts_and_an_expiry_passes():
    assert len({len(now()) for _ in range(50)}) == 1
    assert not KNOWN.is_expired()
    assert replace(KNOWN, expires_at=now()).is_expired()
    assert not replace(KNOWN, expires_at="2999-01-01T00:00:00.000000+00:00").is_expired()


def test_examples_have_a_digest():
    one = digest_of([Example("a", "b")])
    assert len(one) == 64
    assert one != digest_of([Example("a", "c")])
    assert one == digest_of([Example("a", "b")])
