"""`/predictions/{id}/stream`, read by Replicate's own client."""

import pytest
from replicate.client import Client
from replicate.prediction import Prediction

from cog_adapt.server.api.replicate_events import translate
from cog_adapt.server.service.events import RunEvent
from cog_adapt.server.service.prediction import encode
from tests.cog_adapt.contract.serving import serving

CODE = """\
import time
from cog import BasePredictor, ConcatenateIterator, streaming
class Predictor(BasePredictor):
    @streaming
    def predict(self, fail: bool = False, pause: float = 0.0) -> ConcatenateIterator[str]:
        for word in ["a", "b c", "d\\n\\ne", " ", "data:text/plain;base64,aGVsbG8="]:
            print("says")
            time.sleep(pause)
            yield word
        if fail:
            raise ValueError("boom")
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("s")
    (folder / "predict.py").write_text(CODE)
    with serving("mirror", folder, predict="predict.py:Predictor") as server:
        yield server


def prediction_of(client, server, name):
    record = client._request("GET", f"/predictions/{name}").json()
    urls = {"stream": f"{server.url}/predictions/{name}/stream"}
    prediction = Prediction(**record, model="o/n", version="x", urls=urls)
    prediction._client = client
    return prediction


@pytest.mark.parametrize("live", [False, True])
def test_words_come_as_text_live_or_later(server, live):
    client = Client(base_url=server.url)
    with client._client:
        name = server.start(pause=0.1) if live else server.predict()["id"]
        events = list(prediction_of(client, server, name).stream())
    outputs = [
        each.data if isinstance(each.data, str) else each.data.read()
        for each in events
        if each.event.value == "output"
    ]
    assert outputs[:4] == ["a", "b c", "d\n\ne", " "]
    assert outputs[-1] == b"hello"
    assert events[-1].event.value == "done"


def test_a_failure_is_the_clients_error(server):
    client = Client(base_url=server.url)
    with client._client:
        name = server.predict(fail=True)["id"]
        with pytest.raises(RuntimeError, match="boom"):
            list(prediction_of(client, server, name).stream())


@pytest.mark.parametrize(
    ("name", "data", "first"),
    [
        ("output", {"chunk": "a\nb", "index": 0}, ("output", b"a\nb")),
        ("output", {"chunk": {"b": [1]}, "index": 0}, ("output", b'{"b":[1]}')),
        ("log", {"source": "stderr", "data": "line\n"}, ("logs", b"line\n")),
        ("error", {"error": "x", "skipped": 1}, ("error", b'{"error":"x","skipped":1}')),
        ("completed", {"status": "failed", "error": "boom"}, ("error", b"boom")),
        ("completed", {"status": "canceled"}, ("done", b'{"reason":"canceled"}')),
        ("completed", {"status": "succeeded"}, ("done", b"{}")),
        ("start", {"status": "processing"}, None),
        ("metric", {"name": "a", "value": 1}, None),
        ("queued", {"position": 1}, None),
    ],
)
def test_each_event_has_the_platforms_name(name, data, first):
    found = translate(RunEvent(7, name, encode(data)))
    assert found[:1] == ([] if first is None else [RunEvent(7, *first)])


def test_a_failure_is_followed_by_the_end():
    found = translate(RunEvent(7, "completed", encode({"status": "failed", "error": "boom"})))
    assert found[1:] == [RunEvent(7, "done", b'{"reason":"error"}')]
