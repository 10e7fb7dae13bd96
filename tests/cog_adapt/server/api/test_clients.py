"""Files as Replicate's client for Python encodes and reads them, and signatures as documented."""

import base64
import hashlib
import io
import re
from typing import Any

import pytest
from replicate.client import Client
from replicate.helpers import FileOutput, encode_json, transform_output

from tests.cog_adapt.contract.receivers import Answer, Receiver
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.sessions import ROOT

BYTES = bytes(range(256)) * 300
OPERATIONS = ROOT / "docs" / "operations.md"
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
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
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "predict.py").write_text(FILES)
    env = {"WEBHOOK_SECRET": SECRET}
    with serving("mirror", folder, predict="predict.py:Predictor", env=env) as server:
        yield server


@pytest.fixture
def client(server):
    client = Client(api_token="token", base_url=server.url)
    with client._client:
        yield client


@pytest.fixture
def answer(client, tmp_path):
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


def test_the_documented_check_of_signatures_takes_the_servers_and_no_other(server):
    (check,) = re.findall(r"```python\n(.*?)```", OPERATIONS.read_text(), re.DOTALL)
    scope: dict[Any, Any] = {}
    exec(check, scope)
    with Receiver() as receiver:
        webhook = receiver.answer("/hook", Answer())
        server.post("/predictions", {"input": {"file": "data:,x"}, "webhook": webhook})
        receiver.until_completed()
    came = receiver.at("/hook")
    assert len(came) > 2
    for request in came:
        assert scope["is_ours"](SECRET, request.headers, request.body)
        assert not scope["is_ours"](SECRET, request.headers, request.body + b" ")
        assert not scope["is_ours"]("whsec_" + "A" * 44, request.headers, request.body)
        assert not scope["is_ours"](SECRET, request.headers | {"webhook-id": "x"}, request.body)
