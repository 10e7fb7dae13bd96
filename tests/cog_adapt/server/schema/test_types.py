import typing
from pathlib import Path, PurePath
from typing import Annotated, Any, Optional, Union

import cog
import pytest

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.schema.types import (
    FILE,
    OBJECT,
    SCALAR_NAMES,
    SECRET,
    is_list,
    plain,
    refusal,
    scalar_schema,
    title,
    union_members,
)
from gradient_check.tests.present import present


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("text", "Text"),
        ("max_len", "Max Len"),
        ("top_K", "Top K"),
        ("useGPU", "UseGPU"),
        ("a__b", "A  B"),
    ],
)
def test_a_title_has_a_capital_for_each_word(name, expected):
    assert title(name) == expected


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (bool, {"type": "boolean"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (str, {"type": "string"}),
        (dict, {"type": "object"}),
        (typing.Dict, {"type": "object"}),  # noqa: UP006 - predictors still write it
        (Any, {"type": "object"}),
        (cog.File, {"type": "string", "format": "uri"}),
        (cog.Path, {"type": "string", "format": "uri"}),
        (Path, {"type": "string", "format": "uri"}),
        (PurePath, {"type": "string", "format": "uri"}),
        (
            cog.Secret,
            {"type": "string", "format": "password", "writeOnly": True, "x-cog-secret": True},
        ),
    ],
)
def test_each_scalar_has_its_schema(annotation, expected):
    assert scalar_schema(annotation) == expected


@pytest.mark.parametrize("annotation", [list, list[int], bytes, None, int | str, "str", object])
def test_other_types_are_no_scalars(annotation):
    assert scalar_schema(annotation) is None


def test_a_schema_may_be_changed_by_who_asked_for_it():
    for annotation, kept in ((cog.Path, FILE), (dict, OBJECT), (cog.Secret, SECRET)):
        before = dict(kept)
        present(scalar_schema(annotation))["title"] = "x"
        assert kept == before


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, int),
        (Annotated[int, "more"], int),
        (Annotated[Annotated[int, "a"], "b"], int),
        (Annotated[dict[str, int], cog.Opaque], Any),
        (Annotated[dict[str, int], "more", cog.Opaque], Any),
        (Annotated[list[int], cog.Opaque], list[Any]),
        (Annotated[list[int] | None, cog.Opaque], list[Any] | None),
        (Annotated[int | None, cog.Opaque], Any | None),
        (Annotated[list[int] | int, cog.Opaque], Any),
    ],
)
def test_what_is_annotated_is_plain(annotation, expected):
    assert plain(annotation) == expected


@pytest.mark.parametrize(
    ("annotation", "members", "nullable"),
    [
        (int, [int], False),
        (int | str, [int, str], False),
        (int | None, [int], True),
        (Optional[int], [int], True),  # noqa: UP045 - predictors still write it
        (Union[None, int, str], [int, str], True),  # noqa: UP007
        (Annotated[int, "a"] | None, [int], True),
        (list[int], [list[int]], False),
    ],
)
def test_a_union_has_members_and_perhaps_none(annotation, members, nullable):
    assert union_members(annotation) == (members, nullable)


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [(list, True), (list[int], True), (typing.List[int], True), (tuple, False), (int, False)],  # noqa: UP006
)
def test_a_list_is_one_with_or_without_its_items(annotation, expected):
    assert is_list(annotation) is expected


@pytest.mark.parametrize(
    ("annotation", "name"), [(bytes, "bytes"), (set[int], "set[int]"), (int | str, "int | str")]
)
def test_a_refusal_names_the_type_its_use_and_what_is_allowed(annotation, name):
    error = refusal(annotation, "an input", SCALAR_NAMES)
    assert isinstance(error, ConfigError)
    assert str(error) == (
        f"type {name} is not a type that Cog takes as an input; "
        "allowed: bool, int, float, str, dict, Any, cog.Path, cog.File, cog.Secret."
    )
