import dataclasses
from collections.abc import AsyncIterator, Iterator
from typing import (  # noqa: UP035
    Annotated,
    Any,
    ClassVar,
    Dict,
    List,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    Union,
)
from typing import Iterator as TypingIterator  # noqa: UP035

import cog
import pydantic
import pytest

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.schema.outputs import output_schema

FILE = {"type": "string", "format": "uri"}
SECRET = {"type": "string", "format": "password", "writeOnly": True, "x-cog-secret": True}
OBJECT = {"type": "object"}
TEXT = {"type": "string"}


def array(items: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"type": "array", "items": items} | more


ITERATOR = {"x-cog-array-type": "iterator"}
CONCATENATED = ITERATOR | {"x-cog-array-display": "concatenate"}


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, TEXT),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (cog.Path, FILE),
        (cog.File, FILE),
        (cog.Secret, SECRET),
        (Any, OBJECT),
        (dict, OBJECT),
        (Dict, OBJECT),  # noqa: UP006
        (dict[str, int], OBJECT | {"additionalProperties": {"type": "integer"}}),
        (list, array(OBJECT)),
        (List, array(OBJECT)),  # noqa: UP006
        (list[cog.Path], array(FILE)),
        (list[list[float]], array(array({"type": "number"}))),
        (
            dict[str, list[dict[str, str]]],
            OBJECT | {"additionalProperties": array(OBJECT | {"additionalProperties": TEXT})},
        ),
        (Iterator[str], array(TEXT) | ITERATOR),
        (TypingIterator[cog.Path], array(FILE) | ITERATOR),
        (
            Iterator[dict[str, int]],
            array(OBJECT | {"additionalProperties": {"type": "integer"}}) | ITERATOR,
        ),
        (AsyncIterator[int], array({"type": "integer"}) | ITERATOR),
        (cog.ConcatenateIterator[str], array(TEXT) | CONCATENATED),
        (cog.AsyncConcatenateIterator[str], array(TEXT) | CONCATENATED),
        (Annotated[str, "note"], TEXT),
        (Annotated[complex, cog.Opaque], OBJECT),
        (Annotated[list[complex], cog.Opaque], array(OBJECT)),
    ],
)
def test_each_type_has_its_schema(annotation, expected):
    assert output_schema(annotation) == {"title": "Output"} | expected


@pytest.mark.parametrize(
    "annotation",
    [
        None,
        complex,
        bytes,
        set[int],
        tuple[int, int],
        Optional[str],  # noqa: UP045
        str | None,
        Union[int, str],  # noqa: UP007
        list[str | None],
        cog.ConcatenateIterator[int],
        cog.ConcatenateIterator,
        Annotated[str | None, cog.Opaque],
        cog.BaseModel,
    ],
)
def test_other_types_are_refused_with_those_allowed(annotation):
    with pytest.raises(ConfigError, match="allowed: bool, int"):
        output_schema(annotation)


class CogOutput(cog.BaseModel):
    shared: ClassVar[int] = 0
    file_path: cog.Path
    score: float
    note: str | None
    label: str = "none"


@dataclasses.dataclass
class DataclassOutput:
    shared: ClassVar[int] = 0
    file_path: cog.Path
    score: float
    note: Optional[str]  # noqa: UP045
    label: str = dataclasses.field(default="none")


class PydanticOutput(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    _private: int = 0
    file_path: cog.Path
    score: float = pydantic.Field(ge=0)
    note: str | None
    label: str = "none"


class TypedDictOutput(TypedDict):
    file_path: cog.Path
    score: Required[float]
    note: str | None
    label: NotRequired[str]


@pytest.mark.parametrize(
    "model", [CogOutput, DataclassOutput, PydanticOutput, TypedDictOutput], ids=lambda m: m.__name__
)
def test_a_class_of_fields_is_an_object(model):
    assert output_schema(model) == {
        "title": "Output",
        "type": "object",
        "properties": {
            "file_path": FILE | {"title": "File Path"},
            "score": {"type": "number", "title": "Score"},
            "note": TEXT | {"title": "Note", "nullable": True},
            "label": TEXT | {"title": "Label"},
        },
        "required": ["file_path", "score"],
    }


class Partial(TypedDict, total=False):
    name: str


class Inner(cog.BaseModel):
    name: str = ""


class Outer(cog.BaseModel):
    inner: Inner
    several: list[Inner]
    anything: Annotated[complex, cog.Opaque]
    by_name: dict[str, int] = dataclasses.field(default_factory=dict)
    perhaps: Annotated[list[complex] | None, cog.Opaque] = None


class Tree(pydantic.BaseModel):
    children: "list[Tree]"


class EitherField(cog.BaseModel):
    value: int | str


def test_classes_nest():
    inner = OBJECT | {"properties": {"name": TEXT | {"title": "Name"}}}
    schema = output_schema(list[Outer])["items"]
    assert schema["properties"] == {
        "inner": inner | {"title": "Inner"},
        "several": array(inner) | {"title": "Several"},
        "by_name": OBJECT | {"additionalProperties": {"type": "integer"}, "title": "By Name"},
        "anything": OBJECT | {"title": "Anything"},
        "perhaps": array(OBJECT) | {"title": "Perhaps", "nullable": True},
    }
    assert schema["required"] == ["inner", "several", "anything"]


def test_a_class_without_required_fields_requires_nothing():
    assert "required" not in output_schema(Partial)


def test_a_class_that_contains_itself_ends():
    assert output_schema(Tree)["properties"]["children"]["items"] == OBJECT


def test_a_field_of_several_types_is_refused_by_name():
    with pytest.raises(ConfigError, match="field 'value'"):
        output_schema(EitherField)
