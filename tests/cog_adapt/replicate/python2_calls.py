"""Calls of replicate 2.0.0b4, in a process of its own; prints what each gave, as JSON."""
# mypy: ignore-errors

import io
import json
import sys
import warnings
from urllib.parse import parse_qs, urlsplit

import httpx
import replicate

warnings.simplefilter("ignore")
client = replicate.Replicate()
answers = {}


def call(function):
    try:
        answers[function.__name__] = function()
    except Exception as error:  # noqa: BLE001 - the tests look at it
        answers[function.__name__] = f"{type(error).__name__}: {error}"


model = client.models.get(model_owner="any", model_name="name")
version = model.latest_version["id"] if isinstance(model.latest_version, dict) else None
version = version or model.latest_version.id


@call
def run_of_a_model():
    return client.run("any/name", input={"text": "x y"})


@call
def run_of_a_version():
    return list(client.run(f"any/name:{version}", input={"text": "x y"}))


@call
def run_that_outlasts_the_wait():
    return client.run("any/name", input={"text": "x y", "seconds": 1.5}, wait=1)


@call
def run_with_a_file():
    return client.run("any/name", input={"file": io.BytesIO(b"content"), "text": "z"})


@call
def run_with_a_file_in_base64():
    inputs = {"file": io.BytesIO(b"content"), "text": "z"}
    return client.run("any/name", input=inputs, file_encoding_strategy="base64")


@call
def stream():
    return list(client.stream("any/name", input={"text": "x y", "seconds": 1.2}))


@call
def use():
    return str(replicate.use("any/name")(text="x y"))


@call
def failure():
    return client.run("any/name", input={"fail": True, "text": "z"})


@call
def wrong_input():
    return client.run("any/name", input={"nothing": 1})


@call
def created():
    found = []
    for named in (version, "any/name", f"any/name:{version}"):
        made = client.predictions.create(
            version=named, input={"seconds": 30}, stream=True, webhook="http://127.0.0.1:9/x"
        )
        ended = client.predictions.cancel(prediction_id=made.id)
        client.predictions.wait(made.id)
        seen = client.predictions.get(prediction_id=made.id)
        found.append([made.status, ended.id == made.id, seen.status, seen.version == version])
    return found


@call
def pages():
    for _ in range(101):
        client.predictions.create(version=version, input={"text": "p"})
    ids = [each.id for each in client.predictions.list()]
    later = list(client.predictions.list(created_after="2100-01-01T00:00:00Z"))
    return [len(ids) > 101, len(ids) == len(set(ids)), later]


@call
def deployment():
    found = client.deployments.get(deployment_owner="any", deployment_name="name")
    made = client.deployments.predictions.create(
        deployment_owner="any", deployment_name="name", input={"text": "d"}, prefer="wait"
    )
    return [found.current_release.version == version, made.output]


@call
def files():
    made = client.files.create(
        content=b"abc", filename="x.txt", type="text/plain", metadata={"a": 1}
    )
    query = parse_qs(urlsplit(made.urls.download).query)
    content = client.files.download(
        file_id=made.id,
        expiry=int(query["expiry"][0]),
        owner=query["owner"][0],
        signature=query["signature"][0],
    ).read()
    listed = [
        each.id for each in client.files.list() if each.id == client.files.get(file_id=made.id).id
    ]
    client.files.delete(file_id=made.id)
    gone = httpx.get(made.urls.download).status_code
    return [
        made.name, made.size, made.content_type, made.metadata,
        content.decode(), made.id in listed, gone,
    ]  # fmt: skip


@call
def facts():
    versions = list(client.models.versions.list(model_owner="any", model_name="name"))
    one = client.models.versions.get(model_owner="any", model_name="name", version_id=version)
    return [
        client.account.get().username,
        [each.sku for each in client.hardware.list()],
        len(versions),
        one.id == version,
    ]


@call
def secret():
    return client.webhooks.default.secret.get().key


@call
def trainings():
    return [len(list(client.trainings.list()))]


sys.stdout.write(json.dumps(answers))
