"""Output files that are PUT below an upload URL."""

import io
import json

import cog
import pytest
from werkzeug import Response

from cog_adapt.server.worker.outputs import to_json
from cog_adapt.server.worker.uploads import UploadError, Uploads


class Trained(cog.BaseModel):
    weights: cog.Path


@pytest.fixture
def encode(httpserver):
    uploads = Uploads(httpserver.url_for("/up"), "the-id")
    return lambda value: json.loads(to_json(value, uploads))


@pytest.fixture
def path(tmp_path):
    path = cog.Path(tmp_path / "a b.txt")
    path.write_text("content")
    return path


def test_a_file_is_put_with_its_type_and_the_predictions_id(encode, httpserver, path):
    httpserver.expect_request("/up/a b.txt", method="PUT").respond_with_data("")
    assert encode(path) == httpserver.url_for("/up/a%20b.txt")
    request = httpserver.log[0][0]
    assert request.headers["content-type"] == "text/plain"
    assert request.headers["x-prediction-id"] == "the-id"
    assert request.headers["content-length"] == "7"
    assert request.data == b"content"


def test_nested_files_are_put_too_and_their_order_is_kept(encode, httpserver, path):
    httpserver.expect_request("/up/a b.txt", method="PUT").respond_with_data("")
    httpserver.expect_request("/up/1.bin", method="PUT").respond_with_data("")
    url = httpserver.url_for
    assert encode([Trained(weights=path), io.BytesIO(b"x"), {"p": path}]) == [
        {"weights": url("/up/a%20b.txt")},
        url("/up/1.bin"),
        {"p": url("/up/a%20b.txt")},
    ]


def test_the_file_is_where_the_answer_says(encode, httpserver, path):
    answer = Response(status=201, headers={"Location": "https://cdn.example/x?signature=1"})
    httpserver.expect_request("/up/a b.txt", method="PUT").respond_with_response(answer)
    assert encode(path) == "https://cdn.example/x"


def test_a_redirect_is_followed_with_the_whole_file(encode, httpserver, path):
    answer = Response(status=307, headers={"Location": "/other?signature=1"})
    httpserver.expect_request("/up/a b.txt", method="PUT").respond_with_response(answer)
    httpserver.expect_request("/other", method="PUT", data=b"content").respond_with_data("")
    assert encode(path) == httpserver.url_for("/other")


def test_a_refusal_is_an_error(encode, httpserver, path):
    httpserver.expect_request("/up/a b.txt", method="PUT").respond_with_data("", status=500)
    with pytest.raises(UploadError, match="upload returned status 500"):
        encode(path)


def test_a_server_that_is_not_there_is_an_error(path):
    with pytest.raises(UploadError, match="upload request failed"):
        to_json(path, Uploads("http://127.0.0.1:9/up/", "the-id"))


def test_a_prediction_fails_when_its_upload_does(launch, httpserver):
    model = launch(
        "import io\nfrom typing import Any\ndef run() -> Any:\n    return io.BytesIO(b'x')",
        reference="predictor.py:run",
        upload_url=httpserver.url_for("/up"),
    )
    httpserver.expect_ordered_request("/up/0.bin").respond_with_data("", status=403)
    httpserver.expect_ordered_request("/up/0.bin").respond_with_data("")
    assert model.run().error == "Failed to upload output: upload returned status 403 FORBIDDEN"
    assert model.run().output == httpserver.url_for("/up/0.bin")
