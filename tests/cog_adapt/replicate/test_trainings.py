"""Trainings by Replicate's API: the destination names the adapter, which a version can name."""

import pytest
from replicate.client import Client

from tests.cog_adapt.replicate.packages import javascript_answers, python2_answers
from tests.cog_adapt.replicate.site import ADA, BOB, ROWS
from tests.cog_adapt.waiting import wait_for


@pytest.fixture(scope="module")
def client(learner):
    client = Client(api_token="ada-key", base_url=learner.url)
    with client._client:
        yield client


@pytest.fixture(scope="module")
def version(client):
    return client.models.get("any/name").latest_version.id


@pytest.fixture(scope="module")
def training(client, version):
    made = client.trainings.create(
        version=f"any/name:{version}", input={"examples": ROWS}, destination="ada/support"
    )
    assert (made.status, made.destination, made.model) == ("starting", "ada/support", "any/name")

    def look():
        made.reload()
        return made if made.completed_at else None

    return wait_for(look, 120)


def test_the_destination_names_the_adapter(learner, client, training):
    assert training.status == "succeeded", training.error
    owner, _, adapter = training.output["version"].partition(":")
    assert owner == "ada/support"
    named = learner.get("/adapters/support", headers=ADA).json()
    assert named["id"] == adapter
    assert training.output["weights"].startswith("data:")
    assert training.id in [each.id for each in client.trainings.list().results]
    cancelled = client.trainings.cancel(training.id)
    assert cancelled.status == "succeeded"


def test_a_version_names_the_adapter_by_id_or_by_name(client, training):
    adapter = training.output["version"].partition(":")[2]
    for reference in (adapter, "support", "support@v1"):
        assert client.run(f"any/name:{reference}", input={"text": "abc"}) == adapter


def test_another_owner_has_neither_the_training_nor_its_adapter(learner, training):
    assert learner.get(f"/v1/trainings/{training.id}", headers=BOB).status_code == 404
    assert learner.get("/v1/trainings", headers=BOB).json()["results"] == []
    body = {"version": training.output["version"], "input": {"text": "abc"}}
    assert learner.post("/v1/predictions", body, headers=BOB).status_code == 404


@pytest.mark.parametrize("destination", [None, "support", "a/b/c", 5, "a/b:c", ""])
def test_a_destination_has_an_owner_and_a_name(learner, version, destination):
    body = {"input": {"examples": ROWS}, "destination": destination}
    path = f"/v1/models/any/name/versions/{version}/trainings"
    refused = learner.post(path, body, headers=ADA)
    assert refused.status_code == 422
    assert "destination" in refused.json()["detail"]


def test_only_the_served_version_can_be_trained(learner):
    body = {"input": {"examples": ROWS}, "destination": "a/b"}
    path = f"/v1/models/any/name/versions/{'0' * 64}/trainings"
    assert learner.post(path, body, headers=ADA).status_code == 404


def test_version_and_input_cannot_name_two_adapters(learner, training):
    body = {"version": training.output["version"], "input": {"adapter": "other"}}
    refused = learner.post("/v1/predictions", body, headers=ADA)
    assert refused.status_code == 422
    assert "another one" in refused.json()["detail"]


def test_a_model_that_does_not_stream_has_no_stream(learner):
    sent = ADA | {"Prefer": "wait"}
    made = learner.post("/v1/predictions", {"input": {"text": "abc"}}, headers=sent).json()
    assert set(made["urls"]) == {"get", "cancel", "web"}


@pytest.mark.parametrize(
    ("answers", "calls", "name"),
    [
        (python2_answers, "python2_trainings.py", "python2"),
        (javascript_answers, "javascript_trainings.cjs", "javascript"),
    ],
)
def test_the_newer_clients_train_too(learner, answers, calls, name):
    found = answers(learner.url, "ada-key", calls)
    named = learner.get(f"/adapters/{name}", headers=ADA).json()
    assert found == {
        "created": ["starting", f"ada/{name}"],
        "succeeded": ["succeeded", None],
        "version": f"ada/{name}:{named['id']}",
        "canceled": [True, "canceled"],
        "listed": True,
        "run": named["id"],
    }


def test_the_destination_names_the_adapter_of_a_training_that_outlives_its_server(restarted):
    server, name = restarted

    def ended():
        seen = server.get(f"/v1/trainings/{name}", headers=ADA).json()
        return seen if seen["completed_at"] else None

    seen = wait_for(ended, 120)
    assert seen["status"] == "succeeded", seen
    named = server.get("/adapters/kept", headers=ADA).json()
    assert seen["output"]["version"] == f"ada/kept:{named['id']}"
    server.request("PATCH", f"/adapters/{named['id']}", {"name": "mine"}, headers=ADA)
    assert ended()["status"] == "succeeded"
    assert server.get("/adapters/mine", headers=ADA).json()["id"] == named["id"]
