"""The predictor's example requests are read from its folder, bounded, or refused in words."""

import json
from pathlib import Path

import pytest

from cog_adapt.server.api.example_requests import FILE, read_example_requests
from cog_adapt.server.errors import ExamplesError
from cog_adapt.server.schema.openapi import openapi_schema
from cog_adapt.server.schema.validation import InputValidator
from cog_adapt.server.service.service import COMPONENTS

predict = pytest.importorskip("predict", reason="the requests are those of the shipped task")
train = pytest.importorskip("train")
ROOT = Path(__file__).parents[4]


def write(folder, text):
    (folder / "requests.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / "requests.json"


def test_a_predictor_without_them_has_none(tmp_path):
    assert read_example_requests(tmp_path / "requests.json") == []
    (tmp_path / "requests.json").mkdir()
    assert read_example_requests(tmp_path / "requests.json") == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[", "truncated"),
        (b'[{"name": "\xff", "input": {}}]', "utf-8"),
        ('[{"name": "a"}]', "missing required field `input` - at `$[0]`"),
        ('[{"name": "", "input": {}}]', "length >= 1"),
        ('[{"name": "a", "input": []}]', "Expected `object`"),
        ('[{"name": "a", "input": {}, "kind": "other"}]', "'other'"),
        ('[{"name": "a", "input": {}, "inputs": {}}]', "unknown field `inputs`"),
        (json.dumps([{"name": "a", "input": {}}] * 101), "length <= 100"),
        ("[" * 100_000, ""),
    ],
)
def test_a_mistake_is_named_with_its_remedy(tmp_path, text, why):
    file = write(tmp_path, text)
    with pytest.raises(ExamplesError) as caught:
        read_example_requests(file)
    message = str(caught.value)
    assert message.startswith(f"{file} holds no example requests: ")
    assert why in message
    assert message.endswith(". Correct it.")


def test_a_large_file_is_refused(tmp_path):
    assert read_example_requests(write(tmp_path, "[" + " " * (2**20 - 2) + "]")) == []
    with pytest.raises(ExamplesError, match="more than 1048576 bytes. Shorten it"):
        read_example_requests(write(tmp_path, "[" + " " * (2**20 - 1) + "]"))


def test_those_of_the_template_fit_its_inputs():
    shipped = read_example_requests(ROOT / FILE)
    document = openapi_schema(predict.Predictor, train.Trainer)
    assert {request.kind for request in shipped} == {"predict", "train"}
    for request in shipped:
        validator = InputValidator(document, COMPONENTS[request.kind], 10_000)
        assert validator.problems(request.input) == [], request.name


def test_those_of_the_template_learn_from_the_tickets_that_lie_beside_them():
    rows = [json.loads(line) for line in (ROOT / "examples/tickets.jsonl").read_text().splitlines()]
    learning = [each for each in read_example_requests(ROOT / FILE) if "examples" in each.input]
    assert [each.input["examples"] for each in learning] == [rows] * 3
