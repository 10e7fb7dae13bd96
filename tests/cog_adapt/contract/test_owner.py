"""Who asks, as run() and train() are told: under one key of the context that is the server's."""

import hashlib
import json
import os
import signal

import pytest

from cog_adapt.server.protocol import OWNER_KEY
from tests.cog_adapt.contract.differences import expect
from tests.cog_adapt.waiting import wait_for

KEYS = {"ada-key": "ada", "bob-key": "bob", "ada-new-key": "ada"}
JSON = {"Content-Type": "application/json"}
KINDS = pytest.mark.parametrize("path", ["/predictions", "/trainings"])
FORGERIES = [
    b'{"cog_adapt.owner":"eve","a":"1"}',
    b'{"cog_adapt.\\u006fwner":"eve","a":"1"}',
    b'{"cog_adapt.owner":"eve","a":"1","cog_adapt.owner":"eve"}',
    b'{"a":"1","cog_adapt\\u002eowner":"eve","cog_adapt.owner":"eve"}',
    b'{"\\u0063og_adapt.owner":"","a":"1"}',
]


@pytest.fixture(scope="session")
def owned(flavour, shared, tmp_path_factory):
    """A server with keys of two owners, one of whom has two."""
    if flavour == "coglet":
        pytest.skip("Cog has no keys")
    return shared("owner.py:Predictor", **with_keys(tmp_path_factory.mktemp("keys")))


def with_keys(folder):
    lines = [
        f"{owner} predict,train {hashlib.sha256(key.encode()).hexdigest()}"
        for key, owner in KEYS.items()
    ]
    (folder / "keys").write_text("\n".join(lines))
    return {
        "train": "owner.py:train",
        "env": {"API_KEYS_FILE": str(folder / "keys")},
        "until": "up",
    }


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def wait_until_ready(server, key="ada-key"):
    def look():
        health = server.get("/health-check", headers=bearer(key)).json()
        return health["status"] == "READY" or None

    wait_for(look, 60)


def run(server, path, context, headers, inputs=b"{}"):
    body = b'{"input":%s,"context":%s}' % (inputs, context)
    status, _, answer = server.raw("POST", path, body, JSON | headers)
    return status, json.loads(answer)


@KINDS
@pytest.mark.parametrize("context", [b"{}", b'{"a":"1"}', *FORGERIES])
def test_the_keys_owner_is_told_whatever_the_caller_says(owned, path, context):
    wait_until_ready(owned)
    rest = {"a": "1"} if b'"a"' in context else {}
    for key, owner in KEYS.items():
        status, answer = run(owned, path, context, bearer(key))
        assert (status, answer["output"]) == (200, rest | {OWNER_KEY: owner})


@KINDS
def test_an_owner_with_no_body_is_told_too(owned, path):
    wait_until_ready(owned)
    _, _, answer = owned.raw("POST", path, b"", bearer("bob-key"))
    assert json.loads(answer)["output"] == {OWNER_KEY: "bob"}


def test_a_put_tells_the_owner_too(owned):
    wait_until_ready(owned)
    body = {"input": {}, "context": {OWNER_KEY: "eve"}}
    answer = owned.put(f"/predictions/{owned.new_id()}", body, headers=bearer("bob-key"))
    assert answer.json()["output"] == {OWNER_KEY: "bob"}


@pytest.mark.parametrize("name", ["Cog_Adapt.Owner", "cog_adapt.owner ", "cog_adapt", "owner"])
def test_other_names_are_the_callers_own(owned, name):
    wait_until_ready(owned)
    context = json.dumps({name: "eve"}).encode()
    _, answer = run(owned, "/predictions", context, bearer("ada-key"))
    assert answer["output"] == {name: "eve", OWNER_KEY: "ada"}


@pytest.mark.parametrize(
    "context", [b'{"cog_adapt.owner":{"a":"eve"}}', b'{"cog_adapt.owner":["eve"]}', b'"eve"']
)
def test_what_is_no_string_is_refused(owned, context):
    body = b'{"input":{},"context":%s}' % context
    assert owned.raw("POST", "/predictions", body, JSON | bearer("ada-key"))[0] == 422


@pytest.mark.parametrize("context", FORGERIES)
def test_without_keys_the_context_is_the_callers_but_for_that_key(actions, context):
    actions.until_idle()
    _, answer = run(actions, "/predictions", context, {}, b'{"action":"context"}')
    if expect(actions, coglet=False, mirror=True, because="owner"):
        assert answer["output"] == {"a": "1"}
    else:
        assert answer["output"].keys() == {"a", OWNER_KEY}


def test_the_owner_outlives_a_crash_of_the_worker(owned, tmp_path):
    wait_until_ready(owned)
    body = {"input": {"dies_first": str(tmp_path / "mark")}, "retries": 1}
    answer = owned.post("/predictions", body, headers=bearer("bob-key")).json()
    assert answer["output"] == {OWNER_KEY: "bob"}


def test_the_owner_outlives_a_kill_of_the_server(flavour, launch, tmp_path):
    if flavour != "mirror":
        pytest.skip("Cog keeps no records")
    options = with_keys(tmp_path) | {"folder": tmp_path}
    first = launch("owner.py:Predictor", **options)
    wait_until_ready(first)
    wanted = {}
    for number, (key, owner) in enumerate(KEYS.items()):
        name, seconds = f"r{number}", 0 if number else 600
        body = {"id": name, "input": {"seconds": seconds}, "context": {OWNER_KEY: "eve"}}
        headers = bearer(key) | {"Prefer": "respond-async"}
        assert first.post("/predictions", body, headers=headers).status_code == 202
        wanted[name] = {OWNER_KEY: owner} if number else None
    os.kill(first.process.pid, signal.SIGKILL)
    second = launch("owner.py:Predictor", **options)

    def outputs():
        found = {
            name: second.get(f"/predictions/{name}", headers=bearer(key)).json()
            for name, key in zip(wanted, KEYS, strict=True)
        }
        is_over = all(each["status"] in ("succeeded", "failed") for each in found.values())
        return {name: each.get("output") for name, each in found.items()} if is_over else None

    assert wait_for(outputs, 60) == wanted


def test_only_the_run_is_told(owned, receiver):
    wait_until_ready(owned)
    name, headers = owned.new_id(), bearer("bob-key")
    body = {"input": {"seconds": 0.5, "tells": False}, "webhook": f"{receiver.url}/hook"}
    path = f"/predictions/{name}"
    shown = [owned.put(path, body, headers=headers | {"Prefer": "respond-async"}).text]
    shown.append(owned.put(path, body, headers=headers).text)
    shown += [json.dumps(each) for each in receiver.until_completed()]
    if owned.flavour == "mirror":
        shown += [owned.get(path + more, headers=headers).text for more in ("", "/events")]
        page = owned.get("/predictions?limit=1", headers=headers).json()["results"]
        assert [each["id"] for each in page] == [name]
        shown.append(json.dumps(page))
    assert not [text for text in shown if OWNER_KEY in text]
    assert len(shown) >= 4
