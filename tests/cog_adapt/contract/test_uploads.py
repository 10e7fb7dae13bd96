"""Section 5: `--upload-url`."""

import pytest

from tests.cog_adapt.contract.differences import follows_cog
from tests.cog_adapt.contract.flavours import STRICT_OR_NOT
from tests.cog_adapt.contract.receivers import Answer, Receiver


@pytest.fixture(scope="session")
def bucket():
    """Takes the uploads of one server."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def uploading(shared, bucket):
    """A server that uploads, to a bucket with nothing in it yet."""
    bucket.forget()
    return shared("actions.py:Predictor", flags=("--upload-url", f"{bucket.url}/up"))


def on_output(server, text, id="mine"):
    body = {"id": id, "input": {"action": "output", "text": text}}
    return server.post("/predictions", body).json()


def test_a_file_is_uploaded(uploading, bucket):
    name = uploading.new_id()
    body = on_output(uploading, "file", name)
    (request,) = bucket.requests
    assert (request.method, request.body) == ("PUT", b"content")
    assert request.path.startswith("/up/")
    assert request.path.endswith(".txt")
    assert request.headers["content-type"] == "text/plain"
    assert request.headers["x-prediction-id"] == name
    assert body["output"] == bucket.url + request.path


def test_each_file_of_a_list(uploading, bucket):
    output = on_output(uploading, "files", uploading.new_id())["output"]
    paths = {bucket.url + request.path: request.body for request in bucket.requests}
    assert sorted(paths[url] for url in output) == [b"one", b"two"]
    if not follows_cog(uploading, because="upload-order"):
        assert [paths[url] for url in output] == [b"one", b"two"]


@pytest.mark.parametrize("text", ["bytesio", "open file"])
def test_a_file_without_a_path(uploading, bucket, text):
    output = on_output(uploading, text, uploading.new_id())["output"]
    (request,) = bucket.requests
    assert request.headers["content-type"] == "application/octet-stream"
    assert output == bucket.url + request.path


@pytest.mark.parametrize("text", ["file in dict", "cog model file"])
def test_a_nested_file(uploading, bucket, text):
    value = on_output(uploading, text, uploading.new_id())["output"]["file"]
    if follows_cog(uploading, because="nested-uploads"):
        assert value.startswith("data:text/plain;base64,")
        assert bucket.requests == []
    else:
        assert value == bucket.url + bucket.requests[0].path


def test_the_location_is_the_value_without_its_query(uploading, bucket):
    location = "https://cdn.example/f.txt?signature=1"
    bucket.answer("/up/0.bin", Answer(201, headers={"Location": location}))
    output = on_output(uploading, "bytesio", uploading.new_id())["output"]
    if bucket.requests[0].path == "/up/0.bin":
        assert output == "https://cdn.example/f.txt"


def test_redirects_are_followed_with_the_body(uploading, bucket):
    bucket.answer("/up/0.bin", Answer(307, headers={"Location": "/final/x?signature=1"}))
    output = on_output(uploading, "bytesio", uploading.new_id())["output"]
    assert [request.body for request in bucket.requests] == [b"in memory"] * 2
    assert output == f"{bucket.url}/final/x"


@pytest.mark.parametrize(("status", "words"), [(500, "Internal Server Error"), (403, "Forbidden")])
def test_an_upload_that_is_refused_fails_the_prediction(uploading, bucket, status, words):
    bucket.answer("/up/0.bin", Answer(status))
    body = on_output(uploading, "bytesio", uploading.new_id())
    assert body["status"] == "failed"
    assert body["error"] == f"Failed to upload output: upload returned status {status} {words}"


def test_what_is_no_file_is_not_uploaded(uploading, bucket):
    assert on_output(uploading, "dict", uploading.new_id())["output"] == {"a": {"c": [1]}, "b": 1}
    assert bucket.requests == []


@STRICT_OR_NOT
def test_a_slash_at_the_end_of_the_url(launch, bucket):
    bucket.requests.clear()
    server = launch("actions.py:Predictor", flags=("--upload-url", f"{bucket.url}/up/"))
    on_output(server, "file", server.new_id())
    assert bucket.requests[0].path.startswith("/up/")
    assert not bucket.requests[0].path.startswith("/up//")
    assert len(bucket.requests) == 1
