"""Section 2: what bodies and content types are taken, and the answers to the others."""

import gzip
import json
import socket

import pytest

from tests.cog_adapt.contract.differences import expect, follows_cog

JSON = {"Content-Type": "application/json"}
GOOD = b'{"input":{"text":"given"}}'
NOT_JSON = "Failed to parse the request body as JSON: "
NOT_AN_ENVELOPE = "Failed to deserialize the JSON body into the target type: "


def post(server, body, headers=JSON, path="/predictions", method="POST"):
    """Once, but again while coglet's slot is not yet free."""
    for _ in range(100 if server.is_coglet else 1):
        status, answer, content = server.raw(method, path, body, headers)
        if status != 409:
            break
    return status, answer, content


def assert_refused(server, answer, status, text):
    """In plain text that begins as Cog's, or in JSON."""
    assert answer[0] == status, answer
    if follows_cog(server, because="json-errors"):
        assert answer[1]["content-type"] == "text/plain; charset=utf-8"
        assert answer[2].decode().startswith(text)
    else:
        assert answer[1]["content-type"] == "application/json"
        assert ({"error", "detail"} & set(json.loads(answer[2]))) != set()


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=latin1",
        "application/vnd.x+json",
        "application/problem+json; a=b",
    ],
)
def test_json_by_any_of_its_names(actions, content_type):
    status, _, body = post(actions, GOOD, {"Content-Type": content_type})
    assert (status, json.loads(body)["output"]) == (200, "given")


@pytest.mark.parametrize(
    "content_type",
    [
        "text/json",
        "xapplication/json",
        "application/jsonx",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "text/x+json",
        "application/+json",
        "application/xml",
        "garbage",
        "",
    ],
)
def test_another_content_type_is_415(actions, content_type):
    answer = post(actions, GOOD, {"Content-Type": content_type})
    assert_refused(actions, answer, 415, "Expected request with `Content-Type: application/json`")


def test_a_body_without_content_type(actions):
    status, _, body = post(actions, GOOD, {})
    output = expect(actions, coglet="hello", mirror="given", because="no-content-type")
    assert (status, json.loads(body)["output"]) == (200, output)


def test_nonsense_without_content_type(actions):
    status = post(actions, b"not json", {})[0]
    assert status == expect(actions, coglet=200, mirror=400, because="no-content-type")


@pytest.mark.parametrize("body", [None, b""])
def test_no_body_and_no_content_type_is_an_empty_request(actions, body):
    status, _, answer = post(actions, body, {})
    assert (status, json.loads(answer)["output"]) == (200, "hello")


@pytest.mark.parametrize("body", [b"{}", b"  {}  ", b'{"input":null}', b'{"input":{}}'])
def test_inputs_may_be_left_out(actions, body):
    status, _, answer = post(actions, body)
    assert (status, json.loads(answer)["output"]) == (200, "hello")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nul",
        b"{} x",
        b"{'a':1}",
        b'{"input":}',
        b'{"input":{},}',
        b'{"input":{"text":NaN}}',
        b'{"input":{"text":"a\nb"}}',
        b'{"input":{"text":"\xff"}}',
        b'{"input":{"\xff":1}}',
        b'{"id":"\xff"}',
        b'{"input":{"text":"\\ud800"}}',
        b"\xef\xbb\xbf{}",
        b'{"input":{"text":' + b"[" * 126 + b"]" * 126 + b"}}",
        b'{"input":{"text":' + b"[" * 5000,
        gzip.compress(b"{}", mtime=0),
    ],
)
def test_no_json_is_400(actions, body):
    assert_refused(actions, post(actions, body), 400, NOT_JSON)


def test_gzip_is_not_decoded(actions):
    answer = post(actions, gzip.compress(GOOD), JSON | {"Content-Encoding": "gzip"})
    assert_refused(actions, answer, 400, NOT_JSON)


def test_a_body_may_nest_127_levels(actions):
    status, _, body = post(actions, b'{"input":{"text":' + b"[" * 125 + b"]" * 125 + b"}}")
    assert (status, json.loads(body)["detail"][0]["loc"]) == (422, ["body", "input", "text"])


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"[null]",
        b'"x"',
        b"5",
        b"null",
        b"true",
        b'{"id":5}',
        b'{"id":1.5}',
        b'{"id":true}',
        b'{"id":{}}',
        b'{"id":[1]}',
        b'{"webhook":5}',
        b'{"webhook":{}}',
        b'{"webhook_events_filter":"start"}',
        b'{"webhook_events_filter":["x"]}',
        b'{"webhook_events_filter":["START"]}',
        b'{"webhook_events_filter":{}}',
        b'{"webhook_events_filter":null}',
        b'{"webhook_events_filter":true}',
        b'{"context":null}',
        b'{"context":[]}',
        b'{"context":{"a":5}}',
        b'{"context":{"a":null}}',
        b'{"id":"a","id":"b"}',
        b'{"input":{},"input":{}}',
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_json_of_another_shape_is_422(actions, method, body):
    path = "/predictions" if method == "POST" else "/predictions/x"
    assert_refused(actions, post(actions, body, path=path, method=method), 422, NOT_AN_ENVELOPE)


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":null}',
        b'{"webhook":null}',
        b'{"webhook_events_filter":[]}',
        b'{"webhook_events_filter":["start","start"]}',
        b'{"context":{}}',
        b'{"context":{"a":"1","a":"2"}}',
        b'{"x":1,"x":2}',
        b'{"created_at":5,"output_file_prefix":7,"version":[]}',
        b'{"a":' + b"[" * 60 + b"]" * 60 + b"}",
    ],
)
def test_what_the_envelope_takes_or_ignores(actions, body):
    status, _, answer = post(actions, body)
    assert (status, json.loads(answer)["output"]) == (200, "hello")


def test_the_last_of_a_doubled_input_counts(actions):
    answer = post(actions, b'{"input":{"text":"a","text":"b"}}')
    assert json.loads(answer[2])["output"] == "b"


def test_a_chunked_body_is_read(actions):
    head = b"POST /predictions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    chunks = b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    chunks += b"%x\r\n%b\r\n0\r\n\r\n" % (len(GOOD), GOOD)
    actions.until_idle()
    with socket.create_connection(("127.0.0.1", actions.port), 10) as connection:
        connection.sendall(head + chunks)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"given"' in answer


def test_more_than_100_mib_is_413(actions):
    answer = post(actions, b'{"x":"' + b"a" * (100 * 2**20) + b'"}')
    assert_refused(actions, answer, 413, "Failed to buffer the request body: length limit exceeded")


def test_7_mib_of_input_are_fine(actions):
    answer = post(actions, json.dumps({"input": {"text": "a" * (7 * 2**20)}}).encode())
    assert json.loads(answer[2])["output"] == "a" * (7 * 2**20)


def test_a_generated_id(actions):
    first, second = (json.loads(post(actions, b"{}")[2])["id"] for _ in range(2))
    assert first != second
    for name in (first, second):
        assert name.startswith("pred_")
        int(name.removeprefix("pred_"), 16)


@pytest.mark.parametrize("name", ["abc", "A-b_c.d~e", "0", "a" * 100])
def test_a_given_id(actions, name):
    answer = post(actions, json.dumps({"id": name}).encode())
    assert json.loads(answer[2])["id"] == name


@pytest.mark.parametrize(
    ("path", "name"), [("a%2Fb", "a/b"), ("a%20b", "a b"), ("%C3%A9", "é"), ("..%2Fx", "../x")]
)
def test_an_odd_id_in_the_path(actions, path, name):
    status, _, body = post(actions, b"{}", path=f"/predictions/{path}", method="PUT")
    assert status in expect(actions, coglet=[200], mirror=[404, 422], because="odd-ids")
    assert status != 200 or json.loads(body)["id"] == name


def test_an_escaped_id_in_the_path_is_decoded(actions):
    name = actions.new_id()
    escaped = f"/predictions/%74{name[1:]}"
    assert json.loads(post(actions, b"{}", path=escaped, method="PUT")[2])["id"] == name


def test_an_empty_id(actions):
    status, _, body = post(actions, b'{"id":""}')
    assert status == expect(actions, coglet=200, mirror=422, because="odd-ids")
    assert status == 422 or json.loads(body)["id"] == ""


def test_an_id_that_is_no_utf8_is_400(actions):
    answer = post(actions, b"{}", path="/predictions/%FF", method="PUT")
    assert answer[0] in (expect(actions, coglet=400, mirror=422, because="odd-ids"), 400)


def test_an_id_makes_no_folders_elsewhere_and_takes_no_slot(launch, tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    server = launch("actions.py:Predictor", folder=folder)
    name = f"../../..{tmp_path}/escaped"
    server.request("POST", "/predictions", {"id": name})
    escaped = expect(server, coglet=True, mirror=False, because="id-in-paths")
    assert (tmp_path / "escaped").exists() == escaped
    server.until_idle()
    server.request("POST", "/predictions", {"id": "a" * 300})
    server.request("POST", "/predictions", {"id": "\x00"})
    status = server.post("/predictions", {}).status_code
    assert status == expect(server, coglet=409, mirror=200, because="id-takes-slot")
