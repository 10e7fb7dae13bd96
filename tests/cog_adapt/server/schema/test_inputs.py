from typing import Annotated, Any, TypedDict

import cog
import pytest

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.schema.inputs import INPUT_TYPES, INSTEAD_OF_NESTED, input_schema, item_schema

INTEGER, TEXT = {"type": "integer"}, {"type": "string"}


class Options(TypedDict):
    a: int


@pytest.mark.parametrize(
    ("annotation", "schema", "nullable"),
    [
        (int, INTEGER, False),
        (int | None, INTEGER, True),
        (cog.Path, {"type": "string", "format": "uri"}, False),
        (list[int], {"type": "array", "items": INTEGER}, False),
        (list[int] | None, {"type": "array", "items": INTEGER}, True),
        (list[Annotated[int, "a"]], {"type": "array", "items": INTEGER}, False),
        (list[cog.File], {"type": "array", "items": {"type": "string", "format": "uri"}}, False),
        (dict[str, int], {"type": "object"}, False),
        (Options, {"type": "object"}, False),
        (list[Options], {"type": "array", "items": {"type": "object"}}, False),
        (Any, {"type": "object"}, False),
        (int | str, {"anyOf": [INTEGER, TEXT]}, False),
        (list[int] | int, {"anyOf": [{"type": "array", "items": INTEGER}, INTEGER]}, False),
        (
            int | str | None,
            {"anyOf": [INTEGER | {"nullable": True}, TEXT | {"nullable": True}]},
            True,
        ),
        (Annotated[list[bytes], cog.Opaque], {"type": "array", "items": {"type": "object"}}, False),
    ],
)
def test_each_type_has_its_schema_and_may_be_none_or_not(annotation, schema, nullable):
    assert input_schema(annotation) == (schema, nullable)


@pytest.mark.parametrize(
    ("annotation", "name", "allowed"),
    [
        (bytes, "bytes", INPUT_TYPES),
        (list[bytes], "bytes", INPUT_TYPES),
        (list[list[int]], "list[list[int]]", INSTEAD_OF_NESTED),
        (tuple[int], "tuple[int]", INPUT_TYPES),
        (list, "list", "list[str] and the like, which say of what"),
        (cog.Path | str, "Path | str", "outside a union"),
        (list[cog.Path] | str, "list", "outside a union"),
        (cog.Secret | int | None, "Secret", "outside a union"),
    ],
)
def test_other_types_are_refused_by_name_with_those_allowed(annotation, name, allowed):
    with pytest.raises(ConfigError) as caught:
        input_schema(annotation)
    assert "as an input" in str(caught.value)
    assert name in str(caught.value)
    assert allowed in str(caught.value)


def test_the_allowed_types_are_scalars_lists_and_unions():
    assert INPUT_TYPES.startswith("bool, int, ")
    assert INPUT_TYPES.endswith("list[one of these], a union of these, and each with | None")


def test_a_list_is_judged_by_its_items():
    assert item_schema({"type": "array", "items": INTEGER}) == INTEGER
    assert item_schema(TEXT) == TEXT


def test_a_schema_is_its_callers_own():
    input_schema(dict[str, int])[0]["title"] = "x"
    assert input_schema(dict[str, str]) == ({"type": "object"}, False)


def test_what_is_said_to_work_in_place_of_a_list_of_lists_is_accepted():
    assert INSTEAD_OF_NESTED.startswith("list[dict], with an object for each row")
    assert (
        input_schema(list[dict])[0]
        == input_schema(list[Any])[0]
        == {"type": "array", "items": {"type": "object"}}
    )
    assert input_schema(str)[0] == {"type": "string"}
