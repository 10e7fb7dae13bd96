"""Clients that others wrote: Replicate's for Python.

The Python client speaks to Replicate's platform, whose paths (`/v1/…`) and events are not Cog's.
What it makes of inputs, outputs and streams is checked here against a running server.
"""

import base64
import contextlib
import hashlib
import io
import json
import re
from typing import Any

import httpx
import pytest
from replicate.client import Client
from replicate.exceptions import ReplicateError
from replicate.helpers import FileOutput, encode_json, transform_output
from replicate.prediction import Prediction
from replicate.stream import EventSource, ServerSentEvent

from gradient_check.tests.present import present
from tests.cog_adapt.contract.receivers import Answer, Receiver
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.sessions import ROOT

BYTES = bytes(range(256)) * 300
OPERATIONS = ROOT / "docs" / "operations.md"
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
PREDICTOR = """\
from cog import BasePredictor, ConcatenateIterator, Input, streaming


class Predictor(BasePredictor):
    @streaming
    def predict(
        self, words: list[str] = Input(default=["a", "b c", "d\\n\\ne"])
    ) -> ConcatenateIterator[str]:
        for word in words:
            print("says", repr(word))
            yield word
"""
FILES = """\
import hashlib
from pathlib import Path as LocalPath
from typing import Any

from cog import BasePredictor, Input, Path


class Predictor(BasePredictor):
    def predict(self, file: Path = Input(), more: list[Path] = Input(default=[])) -> Any:
        data = file.read_bytes()
        LocalPath("copy.bin").write_bytes(data)
        LocalPath("copy.txt").write_text("text")
        return {
            "name": file.name,
            "sha256": [hashlib.sha256(each.read_bytes()).hexdigest() for each in [file, *more]],
            "file": Path("copy.bin"),
            "nested": {"list": [Path("copy.txt"), Path("copy.bin")]},
            "word": "database: no file",
        }
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "predict.py").write_text(FILES)
    with serving("mirror", folder, predict="predict.py:Predictor") as server:
        yield server


@pytest.fixture(scope="module")
def speaker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("speaker")
    (folder / "predict.py").write_text(PREDICTOR)
    env = {"WEBHOOK_SECRET": SECRET}
    with serving("mirror", folder, predict="predict.py:Predictor", env=env) as server:
        yield server


@contextlib.contextmanager
def client_of(server):
    client = Client(api_token="token", base_url=server.url)
    with client._client:
        yield client


@pytest.fixture
def client(files):
    with client_of(files) as client:
        yield client


@pytest.fixture
def listener(speaker):
    """The client at the server that streams."""
    with client_of(speaker) as client:
        yield client


@pytest.fixture
def answer(files, client, tmp_path):
    """The record of a prediction whose inputs the client has encoded."""
    path = tmp_path / "picture.bin"
    path.write_bytes(BYTES)
    inputs = {"file": path, "more": [io.BytesIO(BYTES), path]}
    encoded = encode_json(inputs, client, file_encoding_strategy="base64")
    sent = client._request("POST", "/predictions", json={"version": "x", "input": encoded})
    return client._request("GET", f"/predictions/{sent.json()['id']}").json()


def test_files_that_the_client_encodes_arrive_byte_for_byte(answer):
    (digest,) = set(answer["output"]["sha256"])
    assert len(answer["output"]["sha256"]) == 3
    assert digest == hashlib.sha256(BYTES).hexdigest()


def test_output_files_become_the_clients_own_wherever_they_stand(answer, client):
    output = transform_output(answer["output"], client)
    assert isinstance(output["file"], FileOutput)
    assert output["file"].read() == BYTES
    text, data = output["nested"]["list"]
    assert (text.read(), b"".join(data)) == (b"text", BYTES)
    assert output["word"] == "database: no file"


def test_uploaded_output_files_are_had_by_their_url(client, tmp_path):
    with Receiver() as receiver:
        output = transform_output(receiver.answer("/copy.bin", Answer(body=BYTES)), client)
        assert isinstance(output, str)  # the client takes https alone
        assert FileOutput(output, client).read() == BYTES


def test_a_record_is_the_clients_prediction_but_for_model_and_version(answer):
    prediction = Prediction(**answer, model="owner/name", version="x")
    assert (prediction.status, prediction.error) == ("succeeded", None)
    assert present(prediction.metrics)["predict_time"] > 0
    assert present(prediction.input)["file"].startswith("data:application/octet-stream;base64,")
    times = (prediction.created_at, prediction.started_at, prediction.completed_at)
    assert sorted(map(present, times)) == list(times)
    with pytest.raises(ValueError, match="model") as failure:
        Prediction(**answer)
    wrong: Any = failure.value
    assert {error["loc"] for error in wrong.errors()} == {("model",), ("version",)}


def test_refusals_are_the_clients_errors(client):
    with pytest.raises(ReplicateError) as failure:
        client._request("GET", "/predictions/nothing")
    assert failure.value.status == 404
    with pytest.raises(ReplicateError) as failure:
        client._request("POST", "/predictions", json={"input": {"file": "/etc/passwd"}})
    assert failure.value.status == 422


def test_the_clients_wish_to_wait_is_heard(listener):
    sent = listener._request(
        "POST", "/predictions", json={"input": {}}, headers={"Prefer": "wait=10"}
    )
    assert Prediction(**sent.json(), model="", version="").output == ["a", "b c", "d\n\ne"]


def test_the_clients_decoder_reads_outputs_with_their_numbers(speaker, listener):
    name = speaker.predict()["id"]
    response = listener._client.get(
        f"/predictions/{name}/events", headers={"Accept": "text/event-stream"}
    )
    source = EventSource(listener, _without_cogs_own(response))
    events = list(source)
    assert {event.event for event in events} == {ServerSentEvent.EventType.OUTPUT}
    assert [json.loads(event.data)["chunk"] for event in events] == ["a", "b c", "d\n\ne"]
    assert [int(event.id) for event in events] == sorted(int(event.id) for event in events)


def test_the_clients_decoder_knows_no_other_event_of_cog(speaker):
    with speaker.open_stream("/predictions", {"input": {}}) as response:
        names = {line[7:] for line in response.iter_lines() if line.startswith("event: ")}
    known = {each.value for each in ServerSentEvent.EventType}
    assert names - known == {"start", "log", "completed"}
    with pytest.raises(ValueError, match="start"):
        EventSource.Decoder().decode("event: start")


def test_the_documented_check_of_signatures_takes_the_servers_and_no_other(speaker):
    (check,) = re.findall(r"```python\n(.*?)```", OPERATIONS.read_text(), re.DOTALL)
    scope: dict[Any, Any] = {}
    exec(check, scope)
    with Receiver() as receiver:
        webhook = receiver.answer("/hook", Answer())
        speaker.request("POST", "/predictions", {"input": {}, "webhook": webhook})
        receiver.until_completed()
    came = receiver.at("/hook")
    assert len(came) > 2
    for request in came:
        assert scope["is_ours"](SECRET, request.headers, request.body)
        assert not scope["is_ours"](SECRET, request.headers, request.body + b" ")
        assert not scope["is_ours"]("whsec_" + "A" * 44, request.headers, request.body)
        assert not scope["is_ours"](SECRET, request.headers | {"webhook-id": "x"}, request.body)


def _without_cogs_own(response):
    """Only the events whose names are Replicate's too."""
    known = tuple(f"event: {each.value}" for each in ServerSentEvent.EventType)
    blocks = [block for block in response.text.split("\n\n") if block]
    kept = [block for block in blocks if any(line.startswith(known) for line in block.split("\n"))]
    text = "".join(f"{block}\n\n" for block in kept)
    return httpx.Response(200, headers=response.headers, text=text)
