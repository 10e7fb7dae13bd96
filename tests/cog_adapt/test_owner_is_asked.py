"""What one server runs is followed, joined and canceled at another one of its database."""

from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial

import pytest

from tests.cog_adapt.contract.receivers import Answer, Receiver
from tests.cog_adapt.contract.servers import events
from tests.cog_adapt.sharing_servers import ADA, ASYNC, BOB, EVE, ask, at_once, shared_database
from tests.cog_adapt.waiting import wait_for, wait_until

NOUNS = ("predictions", "trainings")
MARKER = "Cog-Adapt-Passed-On"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with shared_database(tmp_path_factory.mktemp("shared")) as shared:
        yield shared


@pytest.fixture(scope="module")
def servers(shared):
    with shared.servers(2, COG_MAX_CONCURRENCY="16") as servers:
        yield servers


@pytest.fixture
def begin(servers):
    """Begin a run of a minute at the first server; all are canceled in the end."""
    one, _ = servers
    begun = []

    def begin(noun, name, **inputs):
        body = {"id": name, "input": {"text": name, "seconds": 60} | inputs}
        status, _ = ask(one, "POST", f"/{noun}", body, **ASYNC)
        assert status == 202
        begun.append((noun, name))
        wait_for(lambda: "start" in state(one, noun, name).get("logs", "") or None)
        return name

    yield begin
    for noun, name in begun:
        wait_until(lambda: ask(one, "POST", f"/{noun}/{name}/cancel")[0] == 404)  # noqa: B023


def state(server, noun, name, **headers):
    status, body = ask(server, "GET", f"/{noun}/{name}", **headers)
    assert status == 200, body
    return body


@pytest.mark.parametrize("noun", NOUNS)
def test_a_run_is_shown_with_its_logs_and_output_so_far(servers, begin, noun):
    _, other = servers
    name = begin(noun, f"shown-{noun}")
    for path in (f"/{noun}/{name}", f"/v1/{noun}/{name}"):
        status, body = ask(other, "GET", path)
        assert (status, body["status"], body["logs"]) == (200, "processing", f"start {name}\n")
        assert body["output"] == [name]


@pytest.mark.parametrize("noun", NOUNS)
@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_a_run_is_canceled_anywhere(servers, begin, noun, prefix):
    one, other = servers
    name = begin(noun, f"canceled-{noun}{prefix.replace('/', '-')}")
    status, _ = ask(other, "POST", f"{prefix}/{noun}/{name}/cancel")
    assert status == 200
    wait_until(lambda: state(one, noun, name)["status"] == "canceled")
    wait_until(lambda: state(other, noun, name)["status"] == "canceled")
    status, _ = ask(other, "POST", f"{prefix}/{noun}/{name}/cancel")
    assert status == (200 if prefix else 404)  # it has ended: Cog's answer, and Replicate's


def test_a_later_run_has_no_events_of_a_forgotten_one_with_its_id(servers):
    one, other = servers
    for server, text in ((one, "earlier"), (other, "later")):
        body = {"input": {"text": text}}
        assert ask(server, "PUT", "/predictions/twice", body, Prefer="wait=50")[0] == 200
        told = follow(one, "/predictions/twice/events")
        assert [each.data["chunk"] for each in told if each.event == "output"] == [text, "!"]
        assert ask(other, "DELETE", "/predictions/twice")[0] == 200


def follow(server, path, method="GET", body=None, **headers):
    with server.client.stream(method, server.url + path, json=body, headers=ADA | headers) as found:
        assert found.status_code == 200
        return list(events(found))


@pytest.mark.parametrize("noun", NOUNS)
def test_events_are_followed_anywhere_to_the_end(servers, begin, noun):
    one, other = servers
    name = begin(noun, f"followed-{noun}", seconds=2)
    found = follow(other, f"/{noun}/{name}/events")
    names = [each.event for each in found if each.event not in ("queued", "metric")]
    assert names == ["start", "log", "output", "output", "completed"]
    assert found[-1].data["status"] == "succeeded"
    assert found == follow(one, f"/{noun}/{name}/events")
    for server in servers:
        again = follow(server, f"/{noun}/{name}/events", **{"Last-Event-ID": found[1].id})
        assert (again[0].event, again[-1].event) == ("output", "completed")


def test_a_stream_for_replicates_clients_is_followed_anywhere(servers, begin):
    _, other = servers
    name = begin("predictions", "streamed", seconds=1)
    url = state(other, "predictions", name) and ask(other, "GET", f"/v1/predictions/{name}")[1]
    path = url["urls"]["stream"].partition("/v1")[2]
    for at in (f"/predictions/{name}/stream", f"/v1{path}"):
        with other.client.stream("GET", other.url + at, headers=ADA) as found:
            text = found.read().decode()
        assert "event: output\ndata: streamed\n" in text
        assert "event: done" in text


def test_an_event_stream_of_what_runs_never_says_that_it_is_over(servers, begin):
    _, other = servers
    name = begin("predictions", "long")
    with other.client.stream("GET", f"{other.url}/predictions/{name}/events", headers=ADA) as found:
        names = []
        for each in events(found):
            names.append(each.event)
            if each.event == "output":
                break
    assert "completed" not in names


def test_a_put_joins_what_runs_at_another_server(servers, shared, begin):
    _, other = servers
    name = begin("predictions", "joined", seconds=3)
    body = {"input": {"text": name, "seconds": 3}}
    status, found = ask(other, "PUT", f"/predictions/{name}", body)
    assert (status, found["status"], found["logs"]) == (202, "processing", "start joined\n")
    status, _ = ask(other, "PUT", f"/predictions/{name}", {"input": {"text": "another"}})
    assert status == 409
    found = follow(other, f"/predictions/{name}", "PUT", body, Accept="text/event-stream")
    assert [each.event for each in found][:2] == ["start", "log"]
    assert (found[-1].event, found[-1].id) == ("completed", None)
    assert shared.runs(name) == 1


def has_succeeded(server, name):
    return state(server, "predictions", name)["status"] == "succeeded"


@pytest.mark.parametrize("headers", [{}, ASYNC])
def test_the_same_put_at_two_servers_at_once_runs_once(servers, shared, headers):
    for number in range(10):
        name = f"same{number}{'-async' if headers else ''}"
        body = {"input": {"text": name, "seconds": 0.3}}
        calls = [(each, "PUT", f"/predictions/{name}", body) for each in servers]
        answers = at_once(calls, **headers)
        allowed = {200, 202}  # a PUT of what has ended is answered from its record
        assert {status for status, _ in answers} <= allowed, answers
        wait_until(partial(has_succeeded, servers[0], name))
        assert shared.runs(name) == 1


def test_a_put_that_is_too_long_for_one_packet_joins_too(servers, begin):
    _, other = servers
    text = "x" * 300_000
    name = begin("predictions", "large", text=text)
    body = {"input": {"text": text, "seconds": 60}}
    status, found = ask(other, "PUT", f"/predictions/{name}", body)
    assert (status, found["input"]["text"]) == (202, text)


def test_what_runs_elsewhere_is_not_forgotten(servers, begin):
    _, other = servers
    name = begin("predictions", "kept")
    status, found = ask(other, "DELETE", f"/predictions/{name}")
    assert (status, "has not ended" in found["error"]) == (409, True)


def test_what_one_server_has_forgotten_no_other_shows(servers, begin):
    one, other = servers
    name = begin("predictions", "gone", seconds=0.1)
    wait_until(lambda: has_succeeded(other, name))
    assert follow(one, f"/predictions/{name}/events")[-1].event == "completed"
    status, _ = ask(other, "DELETE", f"/predictions/{name}")
    assert status == 200
    for server in servers:
        assert ask(server, "GET", f"/predictions/{name}/events")[0] == 404


def test_another_owner_finds_nothing_there_and_an_admin_all(servers, begin):
    _, other = servers
    name = begin("predictions", "private")
    for path in (f"/predictions/{name}", f"/predictions/{name}/events", f"/v1/predictions/{name}"):
        assert ask(other, "GET", path, **BOB)[0] == 404
    assert ask(other, "POST", f"/predictions/{name}/cancel", **BOB)[0] == 404
    found = state(other, "predictions", name, **EVE)
    assert (found["owner"], found["logs"]) == ("ada", f"start {name}\n")
    assert ask(other, "POST", f"/predictions/{name}/cancel?owner=ada", **EVE)[0] == 200


def test_a_request_that_says_it_was_passed_on_is_never_passed_on(servers, begin):
    _, other = servers
    name = begin("predictions", "marked")
    found = state(other, "predictions", name, **{MARKER: "1"})
    assert (found["status"], found.get("logs")) == ("processing", "")
    response = other.post(f"/predictions/{name}/cancel", headers=ADA | {MARKER: "1"})
    assert (response.status_code, response.headers["Retry-After"]) == (503, "5")
    assert "has been passed on once" in response.json()["error"]


@contextmanager
def record_of(shared, url, name):
    """A run of a server with this URL that nobody has found dead yet."""
    shared.sql(
        "INSERT INTO servers (id, host, pid, started, lease_until, url, token) VALUES "
        "(%(name)s, 'elsewhere', 1, '', now() + interval '1 hour', %(url)s, 'its-token')",
        name=name,
        url=url,
    )
    shared.sql(
        "INSERT INTO records (kind, id, owner, status, created_at, metrics, retries_left, server,"
        " input) VALUES ('predict', %(name)s, 'ada', 'processing', %(now)s, '{}', 0, %(server)s,"
        " '{}')",
        name=name,
        server=name,
        now=datetime.now(UTC),
    )
    yield name
    # In this order: a record without its server is taken on by a living one.
    shared.sql("DELETE FROM records WHERE id = %(name)s", name=name)
    shared.sql("DELETE FROM servers WHERE id = %(name)s", name=name)


@pytest.fixture
def orphan(shared, servers):
    """A run of a server that does not answer."""
    with record_of(shared, "http://127.0.0.1:9", "orphan") as name:
        yield name


def test_the_request_is_the_callers_but_for_what_is_of_one_connection(servers, shared):
    one, _ = servers
    sent = ADA | {
        "Connection": "keep-alive, X-Of-This-Hop",
        "Host": "model.example.org",
        "Keep-Alive": "timeout=7",
        "Proxy-Authorization": "Basic secret",
        "TE": "trailers",
        "X-Of-This-Hop": "1",
        "X-Request-Id": "7",
    }
    back = {"Content-Type": "text/plain", "Connection": "X-Hop", "X-Hop": "1", "X-Kept": "2"}
    with Receiver() as peer, record_of(shared, f"{peer.url}/below", "a/b") as name:
        peer.answer("/below/predictions/a%2Fb", Answer(418, b"as it is", back))
        url = f"{one.url}/predictions/a%2Fb?x=%20y"
        answer = one.client.get(url, headers=sent)
        assert (answer.status_code, answer.text, name) == (418, "as it is", "a/b")
        assert answer.headers["X-Kept"] == "2"
        assert "X-Hop" not in answer.headers
        [asked] = peer.requests
    assert (asked.method, asked.path) == ("GET", "/below/predictions/a%2Fb?x=%20y")
    known = {name: asked.headers.get(name.lower()) for name in sent}
    assert known == dict.fromkeys(sent) | ADA | {
        "Connection": asked.headers.get("connection"),
        "Host": "model.example.org",
        "X-Request-Id": "7",
    }
    assert "x-of-this-hop" not in asked.headers.get("connection", "").lower()
    assert asked.headers[MARKER.lower()] == "its-token"


def test_a_redirect_of_a_server_is_not_followed(servers, shared):
    with Receiver() as peer, record_of(shared, peer.url, "moved") as name:
        peer.answer(f"/predictions/{name}", Answer(307, b"", {"Location": f"{peer.url}/secret"}))
        answer = servers[0].client.get(f"{servers[0].url}/predictions/{name}", headers=ADA)
        assert answer.status_code == 307
        assert [each.path for each in peer.requests] == [f"/predictions/{name}"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/predictions/orphan/cancel", None),
        ("POST", "/v1/predictions/orphan/cancel", None),
        ("GET", "/predictions/orphan/events", None),
        ("GET", "/predictions/orphan/stream", None),
        ("PUT", "/predictions/orphan", {}),
    ],
)
def test_a_server_that_is_gone_is_503_until_another_goes_on(servers, orphan, method, path, body):
    for server in servers:
        headers = ADA | {"Accept": "text/event-stream"}
        response = server.request(method, path, body, headers=headers)
        assert (response.status_code, response.headers["Retry-After"]) == (503, "5")
        assert "runs at another server, which cannot be asked" in response.text


def test_of_a_server_that_is_gone_the_database_shows_the_last_state(servers, orphan):
    for server in servers:
        assert state(server, "predictions", orphan)["status"] == "processing"
        status, found = ask(server, "PUT", "/predictions/orphan", {})
        assert (status, found["status"]) == (202, "processing")
        status, found = ask(server, "DELETE", "/predictions/orphan")
        assert (status, "has not ended" in found["error"]) == (409, True)


def answered(server):
    """How many streams of trainings' events a server has ended."""
    text = server.get("/metrics", headers=ADA).text
    lines = [line for line in text.splitlines() if line.startswith("cog_http_requests_total")]
    return sum(float(line.split()[-1]) for line in lines if "training_id}/events" in line)


def test_a_reader_that_leaves_leaves_the_other_server_too(servers, begin):
    one, other = servers
    path = f"/trainings/{begin('trainings', 'left')}/events"
    before = answered(one)
    with other.client.stream("GET", other.url + path, headers=ADA) as found:
        reading = events(found)
        assert next(reading)
        assert answered(one) == before
    wait_until(lambda: answered(one) == before + 1)
