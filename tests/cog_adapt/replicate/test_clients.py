"""Replicate's three clients, unchanged, against a running server: each call that they have."""

import io
import json
import os
import re
import subprocess

import pytest
from replicate.client import Client
from replicate.exceptions import ModelError, ReplicateError
from replicate.webhook import Webhooks

from tests.cog_adapt.contract.receivers import Receiver
from tests.cog_adapt.replicate.packages import (
    javascript_answers,
    javascript_environment,
    python2_answers,
)
from tests.cog_adapt.replicate.site import ADA, EVE, SECRET
from tests.cog_adapt.waiting import wait_for

WORDS = ["x ", "y "]


@pytest.fixture(scope="module")
def client(server):
    client = Client(api_token="ada-key", base_url=server.url)
    with client._client:
        yield client


@pytest.fixture(scope="module")
def version(client):
    return client.models.get("any/name").latest_version


def test_each_call_reaches_the_next_server(server):
    shown = [server.get("/metrics", headers=EVE).text for _ in server.members]
    starts = re.findall(r"^process_start_time_seconds (.+)$", "\n".join(shown), re.MULTILINE)
    assert len(set(starts)) == len(server.members)


def test_python_1_runs_models_and_versions(client, version):
    assert client.run("any/name", input={"text": "x y"}) == WORDS
    assert list(client.run(f"any/name:{version.id}", input={"text": "x y"})) == WORDS
    slow = {"text": "x y", "seconds": 1.5}
    assert client.run("any/name", input=slow, wait=1) == WORDS
    assert list(client.run(f"any/name:{version.id}", input=slow, wait=1)) == WORDS


def test_python_1_sends_files(client, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("content")
    with path.open("rb") as file:
        found = client.run("any/name", input={"file": file, "text": "z"})
    assert found == [".txt=content ", "z "]
    inputs = {"file": io.BytesIO(b"content"), "text": "z"}
    found = client.run("any/name", input=inputs, file_encoding_strategy="base64")
    assert found[0].endswith("=content ")


def test_python_1_streams(client):
    events = [(each.event.value, each.data) for each in client.stream("any/name", input={})]
    assert events[0] == ("logs", "reads\n")
    assert events[1:] == [("output", word) for word in ("a ", "b ", "c ")] + [("done", "{}")]


def test_python_1_shows_failures_and_refusals(client):
    with pytest.raises(ModelError, match="a wrong word"):
        client.run("any/name", input={"text": "x", "fail": True})
    with pytest.raises(ReplicateError, match="nothing is no input") as refused:
        client.run("any/name", input={"nothing": 1})
    assert (refused.value.status, refused.value.title) == (422, "Unprocessable Entity")


def test_python_1_creates_lists_and_cancels(client, version):
    made = client.predictions.create(
        version=version, input={"seconds": 30}, webhook_completed="http://127.0.0.1:9/x"
    )
    assert (made.status, made.model, made.version) == ("starting", "local/model", version.id)
    made.cancel()

    def ended():
        made.reload()
        return made.status == "canceled" or None

    wait_for(ended)
    for _ in range(101):
        client.predictions.create(model="any/name", input={"text": "p"})
    page, ids = client.predictions.list(), []
    while True:
        ids += [each.id for each in page.results]
        if page.next is None:
            break
        page = client.predictions.list(page.next)
    assert made.id in ids
    assert len(ids) == len(set(ids))


def test_python_1_knows_the_model_its_deployment_and_the_account(client, version):
    model = client.models.get("any/name")
    assert [each.id for each in model.versions.list()] == [version.id]
    assert model.versions.get(version.id).openapi_schema == version.openapi_schema
    deployment = client.deployments.get("any/name")
    assert deployment.current_release.version == version.id
    made = deployment.predictions.create(input={"text": "d"})
    made.wait()
    assert made.output == ["d "]
    assert client.accounts.current().username == "ada"
    assert [each.sku for each in client.hardware.list()] == ["local"]


def test_python_1_keeps_files(client):
    made = client.files.create(io.BytesIO(b"abc"), filename="x.txt", metadata={"a": 1})
    assert (made.name, made.size, made.metadata) == ("x.txt", 3, {"a": 1})
    seen = client.files.get(made.id)
    for each in (made, seen):
        assert each.urls.pop("download")  # signed anew at each look, for an hour
    assert seen == made
    assert made.id in [each.id for each in client.files.list()]
    client.files.delete(made.id)
    with pytest.raises(ReplicateError, match="there is no file"):
        client.files.get(made.id)


def test_python_1_gets_the_secret_and_validates_whole_predictions(server, client):
    with pytest.raises(ReplicateError, match="admin"):
        client.webhooks.default.secret()
    admin = Client(api_token="eve-key", base_url=server.url)
    with admin._client:
        secret = admin.webhooks.default.secret()
    assert secret.key == SECRET
    with Receiver() as receiver:
        made = client.predictions.create(
            model="any/name", input={"text": "x"}, webhook=receiver.url + "/hook"
        )
        told = wait_for(
            lambda: next((r for r in receiver.requests if r.json["status"] == "succeeded"), None)
        )
    Webhooks.validate(headers=told.headers, body=told.body.decode(), secret=secret)
    made.reload()
    seen = client._request("GET", f"/v1/predictions/{made.id}").json()
    del seen["urls"]["stream"]  # a capability is not sent to others
    assert told.json == seen | {"webhook": told.json["webhook"]}


def test_javascript_validates_our_webhooks(server):
    node, environment = javascript_environment(server.url, "ada-key")
    with Receiver() as receiver:
        body = {"input": {"text": "x"}, "webhook": receiver.url + "/hook"}
        server.post("/v1/predictions", body, headers=ADA)
        told = wait_for(lambda: next(iter(receiver.requests), None))
    names = ("id", "timestamp", "signature")
    sent = {name: told.headers[f"webhook-{name}"] for name in names}
    sent |= {"body": told.body.decode(), "secret": SECRET}
    for values, valid in ((sent, "true\n"), (sent | {"body": "{}"}, "false\n")):
        code = f"require('replicate').validateWebhook({json.dumps(values)}).then(console.log)"
        done = subprocess.run([node, "-e", code], env=os.environ | environment, capture_output=True)
        assert done.stdout.decode() == valid, done.stderr


@pytest.fixture(scope="module")
def python2(server):
    return python2_answers(server.url, "ada-key")


def test_python_2_runs(python2):
    assert python2["run_of_a_model"] == WORDS
    assert python2["run_of_a_version"] == WORDS
    assert python2["run_that_outlasts_the_wait"] == WORDS
    assert python2["run_with_a_file"][0].endswith("=content ")
    assert python2["run_with_a_file_in_base64"][0].endswith("=content ")
    assert python2["stream"] == WORDS
    assert python2["use"] == "x y "


def test_python_2_shows_failures_and_refusals(python2):
    assert python2["failure"].startswith("ModelError")
    assert "a wrong word" in python2["failure"]
    assert python2["wrong_input"].startswith("UnprocessableEntityError")
    assert "nothing is no input" in python2["wrong_input"]
    assert python2["secret"].startswith("PermissionDeniedError")


def test_python_2_has_every_other_call(python2):
    assert python2["created"] == [["starting", True, "canceled", True]] * 3
    assert python2["pages"] == [True, True, []]
    assert python2["deployment"] == [True, ["d "]]
    assert python2["files"] == ["x.txt", 3, "text/plain", {"a": "1"}, "abc", True, 404]
    assert python2["facts"] == ["ada", ["local"], 1, True]
    assert python2["trainings"] == [0]


@pytest.fixture(scope="module")
def javascript(server):
    return javascript_answers(server.url, "bob-key")


def test_javascript_runs(javascript):
    assert javascript["run of a model"] == WORDS
    assert javascript["run of a version"] == WORDS
    assert javascript["run that outlasts the wait"] == WORDS
    assert javascript["run with a file"][0].endswith("=content ")
    assert javascript["stream"] == [
        ["logs", "reads\n"],
        ["output", "x "],
        ["output", "y "],
        ["done", "{}"],
    ]


def test_javascript_shows_failures_and_refusals(javascript):
    assert "a wrong word" in javascript["failed stream"]
    assert "nothing is no input" in javascript["wrong input"]
    assert "lacks the scope" in javascript["secret"]


def test_javascript_has_every_other_call(javascript):
    assert javascript["canceled"] == ["starting", True, "canceled"]
    assert javascript["pages"] == [True, True]
    assert javascript["files"] == [3, {"a": 1}, True, True]
    assert javascript["facts"] == ["bob", ["local"], 1, True, True, ["d "]]
    assert javascript["trainings"] == 0


def test_the_token_that_javascripts_data_uris_leak_is_neither_shown_nor_kept(server, javascript):
    assert "accounts is no input" in javascript["data-uri"]
    assert "bob-key" not in javascript["data-uri"]
    kept = server.kept()
    assert kept
    assert all(b"bob-key" not in content for content in kept)
