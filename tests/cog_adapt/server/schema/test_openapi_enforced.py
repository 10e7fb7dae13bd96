"""What the generated document says is what coglet enforces, asked of the real server."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cog_adapt.server.command.cog_server import CogServer, cog_server, write_schema

PREDICT = '''
import cog
from cog import BaseRunner, File, Input, Path, Secret
from typing import Any, Optional, Union


def shown(value):
    """The value as JSON, and files and secrets by what they hold."""
    if isinstance(value, Secret):
        return f"secret {value.get_secret_value()}"
    if isinstance(value, list):
        return [shown(item) for item in value]
    if isinstance(value, Path):
        return f"path {value.read_text()}"
    return f"file {value.read().decode()}" if hasattr(value, "read") else value


class Predictor(BaseRunner):
    def run(
        self,
        text: str,
        seed: int = Input(default=None),
        limited: str = Input(default="abc", min_length=2, max_length=4),
        matched: str = Input(default="aa", regex="^a+$"),
        whole: int = Input(default=3, ge=1, le=5),
        real: float = Input(default=0.5, ge=0.0, le=1.0),
        flag: bool = False,
        color: str = Input(default="red", choices=["red", "blue"]),
        size: int = Input(default=1, choices=[1, 2]),
        maybe_color: Optional[str] = Input(default=None, choices=["red", "blue"]),
        options: dict = Input(default={"depth": 1}),
        anything: Any = Input(default={}),
        tags: list[str] = Input(default=["a"]),
        counts: list[int] = Input(default=[1]),
        image: Path = Input(default="data:text/plain,picture", accept="image/*"),
        images: Optional[list[Path]] = Input(default=None),
        file: File = Input(default="data:text/plain,old"),
        secret: Secret = Input(default=None),
        maybe: Optional[int] = None,
        maybe_unset: Optional[str] = Input(description="nothing"),
        maybe_seven: Optional[int] = Input(default=7),
        either: Union[int, list[str]] = Input(default=2),
        perhaps_either: Union[int, str, None] = None,
        old: str = Input(default="", deprecated=True),
    ) -> dict:
        given = dict(locals())
        del given["self"]
        return {name: shown(value) for name, value in given.items()}
'''

TRAIN = """
from cog import BaseModel, Input


class TrainingOutput(BaseModel):
    steps: int
    rate: float


def train(steps: int = Input(ge=1, le=9), rate: float = 0.5) -> TrainingOutput:
    return TrainingOutput(steps=steps, rate=rate)
"""

STREAM = """
import cog


class Predictor(cog.BaseRunner):
    @cog.streaming
    def run(self, count: int = 2) -> cog.ConcatenateIterator[str]:
        for number in range(count):
            yield f"chunk {number}"
"""

REQUIRED = {"text": "hello", "seed": 1}
PICTURE = "data:text/plain;base64," + base64.b64encode(b"new").decode()


def write_project(folder: Path, predict: str) -> dict[str, Any]:
    """A folder that coglet can serve, and the document generated for it."""
    (folder / "predict.py").write_text(predict)
    (folder / "train.py").write_text(TRAIN)
    path = write_schema(folder, predict="predict.py:Predictor", train="train.py:train")
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("coglet")


@pytest.fixture(scope="module")
def schema(folder) -> dict[str, Any]:
    return write_project(folder, PREDICT)


@pytest.fixture(scope="module")
def server(folder, schema) -> Iterator[CogServer]:
    with cog_server(folder, predict="predict.py:Predictor", train="train.py:train") as started:
        yield started


@pytest.fixture(scope="module")
def trainer(folder, schema) -> Iterator[CogServer]:
    stubs = ("predict.py:Predictor", "train.py:train")
    with cog_server(folder, predict=stubs[0], train=stubs[1], mode="train") as started:
        yield started


@pytest.fixture(scope="module")
def streamer(tmp_path_factory) -> Iterator[CogServer]:
    folder = tmp_path_factory.mktemp("streamer")
    write_project(folder, STREAM)
    with cog_server(folder, predict="predict.py:Predictor") as started:
        yield started


def predict(server: CogServer, given: dict[str, Any]) -> dict[str, Any]:
    """What run() was called with."""
    response = server.post("/predictions", {"input": given})
    body = response.json()
    assert (response.status_code, body["status"]) == (200, "succeeded"), response.text
    return body["output"]


def refusals(server: CogServer, given: Any, path: str = "/predictions") -> dict[str, str]:
    """The type of each error by its field, and no more than that: 422 and nothing else."""
    response = server.post(path, {"input": given})
    assert response.status_code == 422, response.text
    details = response.json()["detail"]
    assert all(detail["loc"][:-1] == ["body", "input"] for detail in details)
    return {detail["loc"][-1]: detail["type"] for detail in details}


def accepted_by(schema: dict[str, Any], component: str, given: Any) -> bool:
    """What the document itself says of an input, in plain JSON schema."""
    validator = jsonschema.Draft4Validator(
        {"$ref": f"#/components/schemas/{component}", "components": schema["components"]}
    )
    return validator.is_valid(given)


GOOD = [
    ("text", ""),
    ("seed", -1),
    ("limited", "ab"),
    ("limited", "abcd"),
    ("matched", "aaaa"),
    ("whole", 1),
    ("whole", 5),
    ("real", 0),
    ("real", 1.0),
    ("flag", True),
    ("color", "blue"),
    ("size", 2),
    ("maybe_color", "blue"),
    ("options", {"a": [1, None]}),
    ("anything", {"b": 1}),
    ("tags", []),
    ("tags", ["x", "y"]),
    ("counts", [0, -1]),
    ("image", PICTURE),
    ("images", [PICTURE, PICTURE]),
    ("file", PICTURE),
    ("secret", "hush"),
    ("maybe", 3),
    ("maybe_unset", "x"),
    ("maybe_seven", 8),
    ("either", 1),
    ("either", ["a"]),
    ("perhaps_either", "x"),
    ("old", "x"),
]
BAD = [
    ("text", 1, "text"),
    ("seed", "1", "seed"),
    ("seed", None, "seed"),
    ("limited", "a", "limited"),
    ("limited", "abcde", "limited"),
    ("matched", "ab", "matched"),
    ("whole", 0, "whole"),
    ("whole", 6, "whole"),
    ("whole", 1.5, "whole"),
    ("whole", True, "whole"),
    ("real", -0.1, "real"),
    ("real", 1.1, "real"),
    ("real", "0.5", "real"),
    ("flag", 1, "flag"),
    ("color", "green", "color"),
    ("color", 1, "color"),
    ("size", 3, "size"),
    ("size", "1", "size"),
    ("maybe_color", "green", "maybe_color"),
    ("options", [], "options"),
    ("anything", "x", "anything"),
    ("tags", "x", "tags"),
    ("tags", ["x", 1], "tags/1"),
    ("counts", ["1"], "counts/0"),
    ("image", 1, "image"),
    ("images", ["data:,x", 1], "images/1"),
    ("file", {}, "file"),
    ("secret", 1, "secret"),
    ("maybe", "3", "maybe"),
    ("maybe", None, "maybe"),
    ("maybe_unset", 1, "maybe_unset"),
    ("maybe_seven", 0.5, "maybe_seven"),
    ("either", "a", "either"),
    ("either", [1], "either"),
    ("perhaps_either", [], "perhaps_either"),
    ("old", 1, "old"),
]
HELD = {
    "image": "path new",
    "images": ["path new", "path new"],
    "file": "file new",
    "secret": "secret hush",
}


@pytest.mark.parametrize(("field", "value"), GOOD)
def test_a_value_that_the_document_allows_reaches_run(server, schema, field, value):
    given = REQUIRED | {field: value}
    assert accepted_by(schema, "Input", given)
    assert predict(server, given)[field] == HELD.get(field, value)


@pytest.mark.parametrize(("field", "value", "place"), BAD)
def test_a_value_that_the_document_forbids_is_refused_in_its_place(
    server, schema, field, value, place
):
    given = REQUIRED | {field: value}
    assert not accepted_by(schema, "Input", given)
    assert refusals(server, given) == {place: "value_error"}


def test_every_input_has_a_good_and_a_bad_value(schema):
    inputs = set(schema["components"]["schemas"]["Input"]["properties"])
    assert {field for field, _ in GOOD} == inputs
    assert {field for field, *_ in BAD} == inputs


def test_an_input_that_the_document_requires_is_asked_for(server, schema):
    assert schema["components"]["schemas"]["Input"]["required"] == list(REQUIRED)
    missing = dict.fromkeys(REQUIRED, "value_error.missing")
    assert refusals(server, {}) == missing
    assert refusals(server, {"text": "x"}) == {"seed": "value_error.missing"}


def test_every_error_is_named_at_once(server):
    assert refusals(server, {"whole": 0, "color": "green", "text": "x"}) == {
        "color": "value_error",
        "whole": "value_error",
        "seed": "value_error.missing",
    }


def test_what_is_left_out_has_the_default_of_the_document(server, schema):
    properties = schema["components"]["schemas"]["Input"]["properties"]
    defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
    # A default is not fetched: that of a file reaches run() as the text it is.
    assert predict(server, REQUIRED) == REQUIRED | {"maybe_unset": None} | defaults
    assert set(properties) - set(defaults) == {"text", "seed", "maybe_unset"}


def test_unknown_inputs_are_dropped(server):
    assert "unknown" not in predict(server, REQUIRED | {"unknown": 1})


def test_the_document_is_served_as_it_was_written(server, schema):
    assert server.get("/openapi.json").json() == schema


def test_a_predictor_that_does_not_stream_has_no_events(server):
    headers = {"Accept": "text/event-stream"}
    assert server.post("/predictions", {"input": REQUIRED}, headers).status_code == 406


def test_a_predictor_that_streams_has_events(streamer):
    headers = {"Accept": "text/event-stream"}
    response = streamer.post("/predictions", {"input": {}}, headers)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = response.text.splitlines()
    chunks = [line for line in lines if line.startswith("data:") and '"chunk"' in line]
    assert [json.loads(line.removeprefix("data:"))["chunk"] for line in chunks] == [
        "chunk 0",
        "chunk 1",
    ]


def test_training_inputs_are_enforced(trainer, schema):
    body = trainer.post("/trainings", {"input": {"steps": 2}}).json()
    assert body["output"] == {"steps": 2, "rate": 0.5}
    for given, expected in (
        ({}, {"steps": "value_error.missing"}),
        ({"steps": 0}, {"steps": "value_error"}),
        ({"steps": 10}, {"steps": "value_error"}),
        ({"steps": 1, "rate": "fast"}, {"rate": "value_error"}),
    ):
        assert not accepted_by(schema, "TrainingInput", given)
        assert refusals(trainer, given, "/trainings") == expected


def test_the_root_lists_trainings_because_the_document_has_them(server):
    assert server.get("/").json()["trainings_url"].endswith("/trainings")
