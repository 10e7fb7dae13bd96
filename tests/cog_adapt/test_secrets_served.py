"""Inputs of type Secret, and secrets in URLs of webhooks, reach the model and the hook alone."""

import sqlite3
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cog_adapt.server.schema.validation import REDACTED
from tests.cog_adapt.contract.receivers import Receiver
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.server.telemetry.collector import open_collector

PREDICTOR = """
from cog import BasePredictor, ConcatenateIterator, Input, Secret, streaming


class Predictor(BasePredictor):
    @streaming
    def run(
        self, word: str, token: Secret = Input(default=None), tokens: list[Secret] = [],
        fails: bool = False,
    ) -> ConcatenateIterator[str]:
        print("got", token, tokens)
        yield f"{len(token.get_secret_value())} {token}"
        if fails:
            raise ValueError(f"it does not take {token} and {tokens!r}")
"""
INPUT, NUMBER, HOOK = "sEcReT-of-the-input", 77112277, "sEcReT-of-the-hook"
WRONG: list[Any] = [
    {"word": "w", "token": [INPUT]},
    {"word": "w", "token": {"a": INPUT}},
    {"word": "w", "token": NUMBER},
    {"word": "w", "token": INPUT * 5000},
    {"word": "w", "token": "x", "tokens": INPUT},
    {"word": "w", "token": "x", "tokens": [[INPUT], NUMBER, {"a": INPUT}]},
    {"word": 5, "token": INPUT},
    {"word": "w", "tokne": INPUT},
    {"token": INPUT},
    [5],
]


class Asked:
    """Asks one server, and keeps what it answers."""

    def __init__(self, url: str) -> None:
        self.client = httpx2.Client(base_url=url, timeout=60.0)
        self.answers: list[str] = []

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> int:
        """Ask once; return the status."""
        content: dict[str, Any] = {"json": body} if body is not None else {}
        answer = self.client.request(method, path, headers=headers, **content)
        self.answers.append(f"{answer.status_code} {answer.headers} {answer.text}")
        return answer.status_code


def use(asked: Asked, hook: str) -> None:
    """Predict, follow and look at what there is."""
    inputs = {"word": "w", "token": INPUT, "tokens": [INPUT, "x"]}
    envelope = {"webhook": hook, "context": {"a": "b"}}
    for name, more in (("a", {}), ("b", {"fails": True}), ("c", {"word": "w" * 70_000})):
        body = {"input": inputs | more} | envelope
        assert asked.ask("PUT", f"/predictions/{name}", body) == 200
    body = {"input": inputs} | envelope
    assert asked.ask("POST", "/predictions", body, accept="text/event-stream") == 200
    assert asked.ask("POST", "/predictions", {"input": inputs}, prefer="respond-async") == 202
    for end in ("", "/a", "/b", "/a/events", "/a/stream", "/b/stream", "/a/deliveries"):
        assert asked.ask("GET", f"/predictions{end}") == 200


def misuse(asked: Asked) -> None:
    """Send what does not fit, and secrets where none belong."""
    for inputs in WRONG:
        assert asked.ask("POST", "/predictions", {"input": inputs}) == 422, inputs
    url = f"http://u:{HOOK}@10.1.2.3/x?k={HOOK}#{HOOK}"
    for hook in (url, f"ftp://u:{HOOK}@a/", f"http://{HOOK}@[x/", f"http://a:{HOOK}/"):
        body = {"input": {"word": "w", "token": INPUT}, "webhook": hook}
        assert asked.ask("POST", "/predictions", body) in (200, 422), hook  # 200: nothing is sent
    for content in (f'{{"input": {{"token": "{INPUT}"', f'{{"input": {{"token": {INPUT}}}}}'):
        headers = {"content-type": "application/json"}
        answer = asked.client.post("/predictions", content=content, headers=headers)
        assert answer.status_code == 400
        asked.answers.append(answer.text)
    assert asked.ask("GET", f"/nowhere?token={INPUT}", authorization=f"Bearer {INPUT}") == 404


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is written and said, by where."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "secretive.py").write_text(PREDICTOR)
    env = {"COG_LOG_LEVEL": "debug", "MAX_STRING_LENGTH": "80000", "WEBHOOK_AUTH_TOKEN": HOOK}
    with Receiver() as receiver, open_collector() as collector:
        env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "LOG_FORMAT": "json"}
        predict = "secretive.py:Predictor"
        with serving("mirror", folder, predict=predict, env=env, until="READY") as server:
            address = receiver.url.removeprefix("http://")
            asked = Asked(server.url)
            use(asked, f"http://u:{HOOK}@{address}/hook?key={HOOK}#{HOOK}")
            misuse(asked)
            asked.client.close()
            log = server.log
        spans = "\n".join(str(span) for span in collector.spans)
        hooks = "\n".join(each.body.decode() for each in receiver.requests)
    files = [each for each in (folder / ".data").rglob("*") if each.is_file()]
    return {
        "answers": "\n".join(asked.answers),
        "log": log.read_text(),
        "traces": spans,
        "webhooks": hooks,
        "files": "\n".join(each.read_bytes().decode(errors="replace") for each in files),
        "records": records_of(folder / ".data" / "records.db"),
    }


def records_of(path: Path) -> str:
    """Return all rows of the records, but not of the webhooks that may be sent again."""
    connection = sqlite3.connect(path)
    try:
        return "\n".join(str(row) for row in connection.execute("SELECT * FROM records"))
    finally:
        connection.close()


@pytest.mark.parametrize("where", ["answers", "log", "traces", "webhooks", "files", "records"])
def test_an_inputs_secret_is_nowhere(story, where):
    assert len(story[where]) > 500
    assert INPUT not in story[where]
    assert str(NUMBER) not in story[where]


@pytest.mark.parametrize("where", ["answers", "log", "traces", "webhooks", "records"])
def test_a_webhooks_secret_is_nowhere_but_with_what_is_still_to_be_sent(story, where):
    assert HOOK not in story[where]


def test_the_model_got_it_and_the_hook_was_called(story):
    assert f'"output":["{len(INPUT)} **' in story["answers"]
    assert REDACTED in story["records"]
    assert story["webhooks"].count('"status":"succeeded"') >= 3
    assert HOOK in story["files"]
