"""Null in the schemas of own routes has the form of OpenAPI 3.0."""

import pytest

from cog_adapt.server.api.nullable import with_nullable

NULL, TEXT, NAMED = {"type": "null"}, {"type": "string"}, {"$ref": "#/x"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"anyOf": [TEXT, NULL], "title": "A"}, TEXT | {"nullable": True, "title": "A"}),
        ({"anyOf": [NAMED, NULL]}, {"allOf": [NAMED], "nullable": True}),
        (
            {"anyOf": [TEXT, NAMED, NULL]},
            {"anyOf": [TEXT | {"nullable": True}, {"allOf": [NAMED], "nullable": True}]},
        ),
        ({"anyOf": [TEXT, NAMED]}, {"anyOf": [TEXT, NAMED]}),
        ({"items": [{"anyOf": [TEXT, NULL]}]}, {"items": [TEXT | {"nullable": True}]}),
        ({"enum": [None, 1]}, {"enum": [None, 1]}),
    ],
)
def test_null_becomes_a_mark_of_the_other_alternatives(given, expected):
    assert with_nullable(given) == expected
