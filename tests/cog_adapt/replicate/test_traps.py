"""What Replicate's clients take for granted, and would not say: each cost a user a try."""

import json
from urllib.parse import urlsplit

import httpx
import pytest
from replicate.client import Client
from starlette.datastructures import Headers

from cog_adapt.server.replicate.runs import read_wait
from gradient_check.tests.present import present
from tests.cog_adapt.replicate.site import ADA, BOB
from tests.cog_adapt.waiting import wait_for


def create(server, path="/v1/predictions", headers=ADA, prefer=None, **body):
    sent = headers | ({"Prefer": prefer} if prefer else {})
    return server.post(path, body, headers=sent)


def ended(server, made, headers=ADA):
    def look():
        seen = server.get(urlsplit(made["urls"]["get"]).path, headers=headers).json()
        return seen if seen["completed_at"] else None

    return wait_for(look)


def test_1_a_wait_that_ends_early_answers_starting_without_output(server):
    made = create(server, prefer="wait=1", input={"text": "x y", "seconds": 3})
    body = made.json()
    assert (made.status_code, body["status"], body["output"]) == (201, "starting", None)
    seen = server.get(urlsplit(body["urls"]["get"]).path, headers=ADA).json()
    assert seen["status"] == "processing", "else the test shows nothing"
    assert create(server, prefer="wait", input={"text": "x"}).json()["status"] == "succeeded"


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        ("", 0),
        ("wait", 58),
        ("wait=1", 1),
        ("wait=60", 58),
        ("wait=99999999999999", 58),
        ("wait=" + "9" * 5000, 58),
        ("wait=-1", 0),
        ("respond-async, wait=5", 5),
    ],
)
def test_2_waits_end_before_the_clients_give_up(prefer, seconds):
    assert read_wait(Headers({"prefer": prefer})) == seconds


def test_2_without_prefer_the_answer_comes_at_once(server):
    made = create(server, input={"text": "x", "seconds": 30})
    assert (made.status_code, made.json()["status"]) == (201, "starting")
    server.post(f"/v1/predictions/{made.json()['id']}/cancel", headers=ADA)


def test_3_and_4_every_way_to_name_the_model_is_201_and_unknown_fields_are_no_error(server):
    own = server.get("/v1/models/o/n", headers=ADA).json()["latest_version"]["id"]
    assert len(own) == 64
    assert int(own, 16)
    more = {"stream": True, "webhook_completed": "http://127.0.0.1:9/", "later": {"x": [1]}}
    more |= {"webhook": None, "webhook_events_filter": ["completed"]}
    for version in ({}, *({"version": each} for each in (own, "o/n", f"o/n:{own}"))):
        made = create(server, input={"text": "x"}, **more, **version)
        assert made.status_code == 201, made.text
        assert made.json()["version"] == own
        assert made.json()["model"] == (
            "o/n" if "/" in version.get("version", "") else "local/model"
        )
    for path in ("/v1/models/o/n/predictions", "/v1/deployments/o/n/predictions"):
        made = create(server, path, input={"text": "x"}, **more)
        assert (made.status_code, made.json()["model"]) == (201, "o/n")


@pytest.mark.parametrize("version", ["0" * 64, "o/n:" + "0" * 64, "o/n:", 5, ["x"], ""])
def test_4_a_version_that_is_not_here_is_named(server, version):
    refused = create(server, input={}, version=version)
    assert refused.status_code == 422
    assert "version" in refused.json()["detail"]


def test_5_a_create_that_lost_its_wait_is_answered_at_once(server):
    client = Client(api_token="ada-key", base_url=server.url)
    with client._client:
        inputs = {"text": "x", "seconds": 1}
        made = client.predictions.create(model="o/n", input=inputs, wait=True)
    assert made.status == "starting"


def test_6_the_version_tells_clients_to_iterate_and_to_join(server):
    version = server.get("/v1/models/o/n/versions", headers=ADA).json()["results"][0]
    output = version["openapi_schema"]["components"]["schemas"]["Output"]
    assert output["x-cog-array-type"] == "iterator"
    assert output["x-cog-array-display"] == "concatenate"


def test_7_a_running_prediction_shows_its_output_so_far(server):
    made = create(server, input={"text": "x y", "seconds": 30}).json()

    def look():
        seen = server.get(f"/v1/predictions/{made['id']}", headers=ADA).json()
        return seen if seen["output"] else None

    seen = wait_for(look)
    assert (seen["status"], seen["output"]) == ("processing", ["x "])
    server.post(f"/v1/predictions/{made['id']}/cancel", headers=ADA)


def test_8_the_stream_opens_without_a_key_and_no_url_leads_elsewhere(server):
    made = create(server, prefer="wait", input={"text": "x y"}).json()
    assert httpx.get(made["urls"]["stream"]).status_code == 200
    assert httpx.get(made["urls"]["get"]).status_code == 401
    assert all(url.startswith(f"{server.url}/v1/") for url in made["urls"].values())
    assert "https:" not in json.dumps(made)


def test_9_each_event_has_an_id_and_the_stream_ends_with_done(server):
    made = create(server, prefer="wait", input={"text": "x", "fail": True}).json()
    with httpx.stream("GET", made["urls"]["stream"]) as answer:
        lines = list(answer.iter_lines())
    names = [line[7:] for line in lines if line.startswith("event: ")]
    assert [name for name in names if name != "logs"] == ["output", "error", "done"]
    assert sum(line.startswith("id: ") for line in lines) == len(names)
    assert 'data: {"reason":"error"}' in lines


def test_9_a_reader_returns_with_the_last_event_that_it_has_seen(server):
    made = create(server, prefer="wait", input={"text": "x y"}).json()
    with httpx.stream("GET", made["urls"]["stream"]) as answer:
        lines = list(answer.iter_lines())
    seen = [line[4:] for line in lines if line.startswith("id: ")]
    later = httpx.get(made["urls"]["stream"], headers={"Last-Event-ID": seen[1]}).text
    assert "data: x" not in later
    assert "data: y" in later
    wrong = httpx.get(made["urls"]["stream"], headers={"Last-Event-ID": "x"})
    assert wrong.status_code == 422
    assert "Last-Event-ID" in wrong.json()["detail"]


def test_10_the_stream_is_not_where_javascript_takes_texts_for_files(server):
    made = create(server, input={"text": "x"}).json()
    assert not urlsplit(made["urls"]["stream"]).path.startswith("/v1/files/")


def test_12_only_what_has_run_nothing_may_be_sent_again(server):
    made = create(server, input={"text": "x"})
    refused = create(server, input={"nothing": 1})
    assert {each.headers["x-should-retry"] for each in (made, refused)} == {"false"}
    assert "x-should-retry" not in server.get("/v1/predictions", headers=ADA).headers


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/v1/predictions/nothing", ADA, 404),
        ("GET", "/v1/predictions/nothing", {}, 401),
        ("GET", "/v1/webhooks/default/secret", ADA, 403),
        ("GET", "/v1/collections", ADA, 403),
        ("GET", "/v1/predictions?cursor=x", ADA, 404),
        ("GET", "/v1/predictions?created_after=x", ADA, 422),
        ("PUT", "/v1/predictions", ADA, 403),
    ],
)
def test_13_errors_have_the_three_fields_that_clients_show(server, method, path, headers, status):
    refused = server.request(method, path, headers=headers)
    body = refused.json()
    assert (refused.status_code, body["status"], set(body)) == (
        status,
        status,
        {"title", "status", "detail"},
    )
    assert isinstance(body["detail"], str)
    assert body["detail"]
    assert refused.headers["content-type"] == "application/problem+json"


def test_15_clients_read_the_progress_that_tqdm_prints(server):
    client = Client(api_token="ada-key", base_url=server.url)
    with client._client:
        made = client.predictions.create(model="o/n", input={"text": "tqdm"})
        made.wait()
    progress = present(made.progress)
    assert (progress.current, progress.total) == (7568, 10000)


def test_pages_can_be_narrowed_by_time(server):
    made = create(server, prefer="wait", input={"text": "x"}, headers=BOB).json()
    later = create(server, prefer="wait", input={"text": "x"}, headers=BOB).json()

    def ids(**query):
        answer = server.get("/v1/predictions", params=query, headers=BOB).json()
        return [each["id"] for each in answer["results"]]

    assert ids()[:2] == [later["id"], made["id"]]
    assert ids(created_after=later["created_at"]) == [later["id"]]
    assert later["id"] not in ids(created_before=later["created_at"])


def test_cancel_after_ends_it(server):
    sent = ADA | {"Cancel-After": "1s"}
    made = server.post("/v1/predictions", {"input": {"seconds": 30}}, headers=sent).json()
    assert ended(server, made)["status"] == "canceled"


def test_a_stream_is_followed_while_it_runs(server):
    made = create(server, input={"text": "x y", "seconds": 30}).json()
    lines = []
    with httpx.stream("GET", made["urls"]["stream"], timeout=30) as answer:
        for line in answer.iter_lines():
            lines.append(line)
            if line == "data: x ":
                told = server.post(f"/v1/predictions/{made['id']}/cancel", headers=ADA).json()
                assert told["id"] == made["id"]
    assert 'data: {"reason":"canceled"}' in lines
