import enum
import math
from typing import TYPE_CHECKING, Annotated, Any, Dict, List, Optional, TypedDict, Union  # noqa: UP035

import cog
import pytest
from cog import Input

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.schema.loader import find_handler
from cog_adapt.server.schema.signatures import read_inputs

if TYPE_CHECKING:
    from decimal import Decimal

FILE = {"type": "string", "format": "uri"}
SECRET = {"type": "string", "format": "password", "writeOnly": True, "x-cog-secret": True}
OBJECT = {"type": "object"}
TEXT = {"type": "string"}
NOTHING = object()


class Options(TypedDict):
    depth: int


def inputs_of(function):
    return read_inputs(find_handler(function, "predict"))


def property_of(annotation: object, default: object = NOTHING) -> dict[str, Any]:
    """The property of an input with this annotation and default."""

    def run(value) -> str: ...

    run.__annotations__["value"] = annotation
    run.__defaults__ = None if default is NOTHING else (default,)
    return inputs_of(run).schema["properties"]["value"]


def refusal_of(annotation: object, default: object = NOTHING) -> str:
    with pytest.raises(ConfigError) as caught:
        property_of(annotation, default)
    assert "input 'value' of" in str(caught.value)
    return str(caught.value)


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
        (dict, OBJECT),
        (dict[str, int], OBJECT),
        (Dict, OBJECT),  # noqa: UP006
        (Dict[str, Any], OBJECT),  # noqa: UP006
        (Options, OBJECT),
        (Any, OBJECT),
        (list[str], {"type": "array", "items": TEXT}),
        (List[int], {"type": "array", "items": {"type": "integer"}}),  # noqa: UP006
        (list[cog.Path], {"type": "array", "items": FILE}),
        (list[cog.Secret], {"type": "array", "items": SECRET}),
        (list[dict], {"type": "array", "items": OBJECT}),
        (list[dict[str, int]], {"type": "array", "items": OBJECT}),
        (Optional[str], TEXT | {"nullable": True}),  # noqa: UP045
        (float | None, {"type": "number", "nullable": True}),
        (None | cog.Path, FILE | {"nullable": True}),
        (cog.Secret | None, SECRET | {"nullable": True}),
        (list[str] | None, {"type": "array", "items": TEXT, "nullable": True}),
        (int | str, {"anyOf": [{"type": "integer"}, TEXT]}),
        (Union[str, list[str]], {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}),  # noqa: UP007
        (bool | dict, {"anyOf": [{"type": "boolean"}, OBJECT]}),
        (
            int | str | None,
            {
                "anyOf": [{"type": "integer", "nullable": True}, TEXT | {"nullable": True}],
                "nullable": True,
            },
        ),
        (Annotated[int, "unit: seconds"], {"type": "integer"}),
        (Annotated[complex, cog.Opaque], OBJECT),
        (Annotated[list[complex], cog.Opaque], {"type": "array", "items": OBJECT}),
        (list[Annotated[complex, cog.Opaque]], {"type": "array", "items": OBJECT}),
        (Annotated[complex | None, cog.Opaque], OBJECT | {"nullable": True}),
        (Annotated[complex, cog.Opaque] | None, OBJECT | {"nullable": True}),
    ],
)
def test_each_type_has_its_property(annotation, expected):
    assert property_of(annotation) == {"x-order": 0, "title": "Value"} | expected


@pytest.mark.parametrize(
    "annotation",
    [
        complex,
        bytes,
        set,
        tuple[int, int],
        list,
        list[list[int]],
        list[int | None],
        list[int | str],
        int | cog.Path,
        str | cog.Secret,
        int | list[cog.File],
        enum.Enum("Color", "red blue"),
        None,
    ],
)
def test_other_types_are_refused_with_those_allowed(annotation):
    assert "allowed" in refusal_of(annotation)


def test_an_input_without_a_type_is_refused():
    def run(text) -> str: ...

    with pytest.raises(ConfigError, match=r"'text' of run: .*annotate"):
        inputs_of(run)


def test_a_type_that_cannot_be_resolved_is_refused():
    def run(amount: "Decimal") -> str: ...

    with pytest.raises(ConfigError, match="Decimal"):
        inputs_of(run)


def test_types_written_as_strings_are_resolved():
    def run(text: "Optional[str]") -> "str": ...  # noqa: UP045

    assert inputs_of(run).schema["properties"]["text"]["nullable"] is True


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("max_len", "Max Len"),
        ("prompt", "Prompt"),
        ("useGPU", "UseGPU"),
        ("_x", " X"),
        ("x1_Y", "X1 Y"),
    ],
)
def test_titles_capitalise_the_first_letter_of_each_word(name, title):
    namespace: dict[str, Any] = {}
    exec(f"def run({name}: int) -> str: ...", namespace)
    assert inputs_of(namespace["run"]).schema["properties"][name]["title"] == title


def test_inputs_keep_their_order():
    class Predictor:
        def run(self, b: int, a: int = 1, c: int = Input(default=1)) -> str: ...

    properties = inputs_of(Predictor).schema["properties"]
    assert {name: each["x-order"] for name, each in properties.items()} == {"b": 0, "a": 1, "c": 2}


def with_defaults(
    plain: int,
    optional_plain: int | None,
    described: int = Input(description="text"),
    none: int = None,  # type: ignore[assignment]
    input_none: int = Input(default=None),
    union: int | str = Input(),
    secret: cog.Secret = Input(),
    optional: int | None = Input(),
    optional_none: int | None = None,
    optional_input_none: int | None = Input(default=None),
    optional_value: int | None = Input(default=3),
    secret_none: cog.Secret = Input(default=None),
    secrets_none: list[cog.Secret] = Input(default=None),
    zero: int = 0,
    false: bool = Input(default=False),
    empty: str = Input(default=""),
) -> str: ...


def test_required_is_what_has_no_default_and_cannot_be_none():
    assert inputs_of(with_defaults).schema["required"] == [
        "plain",
        "described",
        "none",
        "input_none",
        "union",
        "secret",
        "secrets_none",
    ]


def test_a_default_is_written_where_one_is_named_and_fits():
    properties = inputs_of(with_defaults).schema["properties"]
    assert {name: each["default"] for name, each in properties.items() if "default" in each} == {
        "optional_none": None,
        "optional_input_none": None,
        "optional_value": 3,
        "secret_none": None,
        "zero": 0,
        "false": False,
        "empty": "",
    }


def test_what_may_be_none_is_nullable():
    properties = inputs_of(with_defaults).schema["properties"]
    nullable = {name for name, each in properties.items() if each.get("nullable") is True}
    assert nullable == {name for name in properties if name.startswith("optional")} | {
        "secret_none"
    }


def test_a_function_without_inputs_requires_nothing():
    def run() -> str: ...

    assert inputs_of(run).schema == {"type": "object", "properties": {}}


class Level(enum.IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    ("annotation", "default", "expected"),
    [
        (list[str], ["a", "b"], ["a", "b"]),
        (list[int], (1, 2), [1, 2]),
        (dict, {"a": [1, None]}, {"a": [1, None]}),
        (int, Level.LOW, 1),
        (float, 0.5, 0.5),
        (cog.Path, "https://example.com/a.png", "https://example.com/a.png"),
    ],
)
def test_defaults_are_values_of_json(annotation, default, expected):
    written = property_of(annotation, Input(default=default))["default"]
    assert (written, type(written)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("annotation", "default"),
    [(cog.Path, cog.Path("a")), (cog.Secret, cog.Secret("hush")), (float, math.nan), (str, b"a")],
)
def test_other_defaults_are_refused_and_not_shown(annotation, default):
    message = refusal_of(annotation, default)
    assert "default is of type" in message
    assert "hush" not in message


@pytest.mark.parametrize(
    ("annotation", "given", "expected"),
    [
        (int, {"ge": 1, "le": 5}, {"minimum": 1, "maximum": 5}),
        (float, {"ge": 0.0}, {"minimum": 0.0}),
        (float | None, {"le": 0}, {"maximum": 0}),
        (list[int], {"ge": 1}, {"minimum": 1}),
        (str, {"min_length": 0, "max_length": 9}, {"minLength": 0, "maxLength": 9}),
        (str, {"regex": "^a+$"}, {"pattern": "^a+$"}),
        (str, {"description": ""}, {"description": ""}),
        (str, {"deprecated": True}, {"deprecated": True}),
        (str, {"deprecated": False}, {}),
        (cog.Path, {"accept": "image/*"}, {"x-cog-accept": "image/*"}),
        (list[cog.Path] | None, {"accept": ".bin"}, {"x-cog-accept": ".bin"}),
        (cog.File, {"accept": ".bin"}, {"x-cog-accept": ".bin"}),
    ],
)
def test_each_argument_of_input_has_its_keyword(annotation, given, expected):
    bare = property_of(annotation, Input())
    assert property_of(annotation, Input(**given)) == bare | expected


@pytest.mark.parametrize(
    ("annotation", "given"),
    [
        (str, {"ge": 1}),
        (bool, {"le": 1}),
        (int, {"min_length": 1}),
        (cog.Path, {"max_length": 9}),
        (cog.Secret, {"regex": "a"}),
        (str, {"accept": "image/*"}),
        (int | str, {"ge": 1}),
        (int | str, {"regex": "a"}),
    ],
)
def test_a_constraint_that_cannot_hold_is_refused(annotation, given):
    ((argument, value),) = given.items()
    assert f"{argument}={value!r} does not fit" in refusal_of(annotation, Input(**given))


def test_a_wrong_regex_is_refused():
    assert "unterminated" in refusal_of(str, Input(regex="(["))


@pytest.mark.parametrize(
    "pattern", [r"a\Z", r"\\\Z", r"\N{DIGIT ONE}", r"(?P<q>a)(?P=q)", r"(a)(?(1)b|c)"]
)
def test_a_regex_that_only_python_knows_is_refused(pattern):
    assert "only Python knows" in refusal_of(str, Input(regex=pattern))


@pytest.mark.parametrize("pattern", [r"a\\Z", r"^\d{2}$", r"(?P<q>a)", "Z", "(?i:a)", "(?=a)"])
def test_other_regexes_are_written_as_they_are(pattern):
    assert property_of(str, Input(regex=pattern))["pattern"] == pattern


@pytest.mark.parametrize(
    ("annotation", "choices", "kind"),
    [
        (str, ["red", "blue"], "string"),
        (int, [1, 2], "integer"),
        (str | None, ["a"], "string"),
        (int, [Level.LOW], "integer"),
    ],
)
def test_choices_are_an_enumeration_of_their_own(annotation, choices, kind):
    def run(value=Input(choices=choices, description="text")) -> str: ...

    run.__annotations__["value"] = annotation
    inputs = inputs_of(run)
    written = inputs.schema["properties"]["value"]
    assert written.pop("nullable", False) == (annotation == str | None)
    assert written == {
        "x-order": 0,
        "allOf": [{"$ref": "#/components/schemas/value"}],
        "description": "text",
    }
    assert inputs.enumerations == {
        "value": {
            "title": "value",
            "description": "An enumeration.",
            "enum": [int(each) if kind == "integer" else each for each in choices],
            "type": kind,
        }
    }


@pytest.mark.parametrize(
    ("annotation", "choices"),
    [
        (str, ["a", 1]),
        (int, [1, True]),
        (int, ["1"]),
        (float, [0.5]),
        (list[str], ["a", "b"]),
        (int | str, [1, "a"]),
        (cog.Path, ["a"]),
        (cog.Secret, ["a"]),
    ],
)
def test_choices_of_another_type_are_refused(annotation, choices):
    assert "do not fit" in refusal_of(annotation, Input(choices=choices))


def test_no_choices_are_no_enumeration():
    def run(value: str = Input(choices=[])) -> str: ...

    assert inputs_of(run).enumerations == {}
    assert inputs_of(run).schema["properties"]["value"]["type"] == "string"
