"""From flags to JSON, by schemas made from real signatures."""

import base64
from typing import Any

import pytest
from cog import Input, Path, Secret

from cog_adapt.server.command.inputs import fit_inputs, read_flags
from cog_adapt.server.command.schema import InputSchema
from cog_adapt.server.errors import InputError
from cog_adapt.server.schema.openapi import openapi_schema


def predict(
    text: str = "",
    maybe: str | None = Input(default=None),
    count: int = 1,
    ratio: float = 1.0,
    loud: bool = False,
    names: list[str] = [],  # noqa: B006
    counts: list[int] = [],  # noqa: B006
    image: Path = Input(default=None),
    images: list[Path] = [],  # noqa: B006
    settings: dict[str, Any] = {},  # noqa: B006
    level: int = Input(default=1, choices=[1, 2]),
    code: str = Input(default="a", regex="^[a-z]+$"),
    either: str | int = "",
    several: str | list[str] = "",
    token: Secret = Input(default=None),
) -> str:
    return text


DOCUMENT = openapi_schema(predict)
del DOCUMENT["components"]["schemas"]["Input"]["required"]


def fit(*flags: str) -> dict[str, Any]:
    return fit_inputs(read_flags(flags), InputSchema(DOCUMENT, "predict"))


@pytest.mark.parametrize(
    ("flags", "value"),
    [
        (["text=a=b"], "a=b"),
        (["text="], ""),
        (["text=3"], "3"),
        (["text=true"], "true"),
        (['text="quoted"'], "quoted"),
        (['text="@name"'], "@name"),
        (['text="'], '"'),
        (["maybe=null"], "null"),
        (["count=-3"], -3),
        (["ratio=2"], 2),
        (["ratio=-1.5e3"], -1500.0),
        (["loud=true"], True),
        (["loud=FALSE"], False),
        (["loud=1"], True),
        (["names=a"], ["a"]),
        (["names=a", "names=b,c"], ["a", "b,c"]),
        (['names=["a", "b"]'], ["a", "b"]),
        (["names=[a"], ["[a"]),
        (['names="[]"'], ["[]"]),
        (["counts=1", "counts=2"], [1, 2]),
        (["counts=[1, 2]"], [1, 2]),
        (["image=https://example.com/a.png"], "https://example.com/a.png"),
        (['settings={"a": [1]}'], {"a": [1]}),
        (["level=2"], 2),
        (["either=3"], 3),
        (['either="3"'], "3"),
        (["either=x"], "x"),
        (["several=x"], "x"),
        (["several=x", "several=y"], ["x", "y"]),
        (["token=abc"], "abc"),
    ],
)
def test_a_value_becomes_what_its_input_takes(flags, value):
    (found,) = fit(*flags).values()
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["count=1.0"], "count is '1.0': allowed: a whole number."),
        (["count=1_0"], "count is '1_0': allowed: a whole number."),
        (['count="1"'], "count is '1': allowed: integer; leave the quotes out."),
        (["ratio=inf"], "ratio is 'inf': allowed: a number."),
        (["ratio=Infinity"], "ratio is 'Infinity': allowed: a number."),
        (["ratio=true"], "ratio is 'true': allowed: a number."),
        (["loud=maybe"], "loud is 'maybe': allowed: true or false."),
        (["text=a", "text=b"], "text is 'a', 'b': allowed: one value."),
        (["counts=1", "counts=x"], "counts is '1', 'x': allowed: a whole number."),
        (["settings=[1]"], "settings: [1] is not of type "),
        (["settings={a: 1}"], "settings is '{a: 1}': allowed: JSON of type object;"),
        (["level=3"], "level: 3 is not one of [1,2]"),
        (["code=A"], 'code: "A" does not match'),
    ],
)
def test_a_wrong_value_is_refused_with_its_name_itself_and_what_is_allowed(flags, reason):
    with pytest.raises(InputError) as caught:
        fit(*flags)
    assert reason in str(caught.value)


def test_a_file_is_a_data_uri_by_the_type_of_its_name(tmp_path):
    (tmp_path / "a.png").write_bytes(b"\x00image")
    (tmp_path / "b.jsonl").write_bytes(b"{}")
    uri = "data:image/png;base64," + base64.b64encode(b"\x00image").decode()
    unknown = "data:application/octet-stream;base64,e30="
    inputs = fit(
        f"image=@{tmp_path}/a.png",
        f"images=@{tmp_path}/a.png",
        f"text=@{tmp_path}/b.jsonl",
        f"names=@{tmp_path}/b.jsonl",
        "names=plain",
    )
    assert inputs["image"] == uri
    assert inputs["images"] == [uri]
    assert inputs["names"][1] == "plain"
    assert inputs["names"][0] == inputs["text"]
    assert inputs["text"] in (unknown, unknown.replace("octet-stream", "jsonl"))


def test_a_file_for_what_is_no_text_holds_the_value(tmp_path):
    (tmp_path / "settings.json").write_text('{"a": 1}')
    (tmp_path / "counts.json").write_text("[1, 2]\n")
    (tmp_path / "binary").write_bytes(b"\xff")
    inputs = fit(f"settings=@{tmp_path}/settings.json", f"counts=@{tmp_path}/counts.json")
    assert inputs == {"settings": {"a": 1}, "counts": [1, 2]}
    with pytest.raises(InputError, match="no UTF-8 text"):
        fit(f"settings=@{tmp_path}/binary")


def test_a_home_folder_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "n").write_text("7")
    assert fit("count=@~/n") == {"count": 7}


def test_a_missing_input_is_named_once():
    def run(text: str, count: int) -> str:
        return text

    with pytest.raises(InputError) as caught:
        fit_inputs(read_flags(["count=x"]), InputSchema(openapi_schema(run), "predict"))
    assert str(caught.value).splitlines() == [
        "count is 'x': allowed: a whole number.",
        "text is required; give -i text=…",
    ]


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(InputError) as caught:
        fit("count=" + "9" * 5000 + "x")
    assert len(str(caught.value)) < 400


LEVEL = {"$ref": "#/components/schemas/Level"}


def fit_level(value, schema):
    named = {"type": "integer", "enum": [1, 2]}
    schemas = {"Input": {"properties": {"level": schema}}, "Level": named}
    document = {"components": {"schemas": schemas}}
    return fit_inputs(read_flags([f"level={value}"]), InputSchema(document, "predict"))["level"]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_alternatives_are_tried_text_last_however_they_are_written(keyword):
    schema = {keyword: [{"type": "string"}, LEVEL]}
    assert fit_level("2", schema) == 2
    assert fit_level("x", schema) == "x"


def test_a_type_that_is_named_within_all_of_is_followed():
    assert fit_level("2", {"allOf": [LEVEL]}) == 2
