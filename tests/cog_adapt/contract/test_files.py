"""Section 5: files that are fetched, and files that are put out."""

import base64
from pathlib import Path

import pytest

from tests.cog_adapt.contract.differences import expect, follows_cog
from tests.cog_adapt.contract.receivers import Answer

ONE_BYTE_TEXT = "data:text/plain;base64,"


def read(server, url):
    return server.predict(action="read", file=url)


def data(content: bytes, mime: str) -> str:
    return f"data:{mime};base64,{base64.b64encode(content).decode()}"


def test_a_url_is_fetched(actions, receiver):
    url = receiver.answer("/folder/some.txt", Answer(body=b"remote"))
    found = read(actions, f"{url}?query=1")["output"]
    assert (found["type"], found["content"]) == ("Path", "remote")
    assert found["name"].endswith("some.txt")
    assert found["name"] != "some.txt"
    assert receiver.requests[0].path == "/folder/some.txt?query=1"


def test_the_name_is_of_the_url_asked_for(actions, receiver):
    receiver.answer("/final.png", Answer(body=b"moved"))
    url = receiver.answer("/first.txt", Answer(302, headers={"Location": "/final.png"}))
    found = read(actions, url)["output"]
    assert found["content"] == "moved"
    assert found["name"].endswith("first.txt")


def test_an_escaped_name_is_decoded(actions, receiver):
    url = receiver.answer("/sp%20ace.txt", Answer(body=b"x"))
    assert read(actions, url)["output"]["name"].endswith("sp ace.txt")


def test_a_long_name_is_cut(actions, receiver):
    url = receiver.answer(f"/{'n' * 250}.txt", Answer(body=b"long"))
    found = read(actions, url)["output"]
    assert found["content"] == "long"
    assert len(found["name"].encode()) <= 255
    assert found["name"].endswith(".txt")


@pytest.mark.parametrize(
    ("url", "content", "suffix"),
    [
        ("data:text/plain;base64,aGVsbG8=", "hello", ".txt"),
        ("data:text/plain;charset=utf-8;base64,aGVsbG8=", "hello", ".txt"),
        ("data:text/plain,hello%20there", "hello there", ".txt"),
        ("data:,plain", "plain", ".txt"),
        ("data:image/png;base64,aGVsbG8=", "hello", ".png"),
        ("data:application/json,%7B%7D", "{}", ".json"),
        ("data:application/x-unknown;base64,aGVsbG8=", "hello", ""),
    ],
)
def test_a_data_url_is_a_file(actions, url, content, suffix):
    found = read(actions, url)["output"]
    assert (found["type"], found["content"]) == ("Path", content)
    assert Path(found["name"]).suffix == suffix


def test_input_files_are_removed_afterwards(actions, receiver):
    for url in (receiver.answer("/gone.txt", Answer(body=b"x")), "data:text/plain,x"):
        path = Path(read(actions, url)["output"]["path"])
        actions.until_idle()
        assert not path.exists()


@pytest.mark.parametrize("status", [404, 403, 500])
def test_a_url_that_cannot_be_had_fails_the_prediction(actions, receiver, status):
    body = read(actions, receiver.answer("/missing.txt", Answer(status)))
    assert body["status"] == "failed"
    assert body["error"].startswith(f"Input validation error: {status} ")
    assert len(receiver.requests) == 1


def test_a_server_that_is_down_fails_the_prediction(actions):
    body = read(actions, "http://127.0.0.1:1/x.txt")
    assert body["status"] == "failed"
    assert body["error"].startswith("Input validation error: ")


@pytest.mark.parametrize("url", ["data:nothing", "http://nowhere.invalid/x"])
def test_what_is_no_file_fails_the_prediction(actions, url):
    body = read(actions, url)
    assert body["status"] == "failed"
    assert body["error"].startswith("Input validation error: ")


def test_the_user_agent_can_be_set(settled, receiver):
    read(settled, receiver.answer("/x.txt", Answer(body=b"x")))
    assert receiver.requests[0].headers["user-agent"] == "mine/1"


@pytest.mark.parametrize(
    "url", ["/etc/hostname", "file:///etc/hostname", "hostname", "ftp://x/y", ""]
)
def test_other_strings_are_no_files(actions, url):
    response = actions.post("/predictions", {"input": {"action": "read", "file": url}})
    if follows_cog(actions, because="local-files"):
        assert response.json()["output"]["type"] == "str"
    else:
        assert response.status_code == 422
        assert response.json()["detail"][0]["loc"] == ["body", "input", "file"]


def test_a_list_of_urls(inputs, receiver):
    urls = [receiver.answer(f"/{n}.txt", Answer(body=b"%d" % n)) for n in range(10)]
    assert inputs.output(s="x", n=1, paths=urls)["paths"] == [
        ["Path", str(number)] for number in range(10)
    ]
    assert len(receiver.requests) == 10


def test_a_list_of_urls_and_others(inputs):
    paths = ["data:text/plain,a", "/etc/hostname"]
    response = inputs.post("/predictions", {"input": {"s": "x", "n": 1, "paths": paths}})
    status = expect(inputs, coglet=200, mirror=422, because="mixed-lists")
    assert response.status_code == status


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("file", data(b"content", "text/plain")),
        ("png", data(b"image", "image/png")),
        ("unknown file", data(b"content", "application/octet-stream")),
        ("open file", data(b"opened", "application/octet-stream")),
        ("bytesio", data(b"in memory", "application/octet-stream")),
        ("files", [data(b"one", "text/plain"), data(b"two", "text/plain")]),
        ("file in dict", {"file": data(b"inner", "text/plain")}),
        ("cog model file", {"file": data(b"inner", "text/plain"), "text": "t"}),
    ],
)
def test_files_are_put_out_as_data_urls(actions, text, output):
    assert actions.output(action="output", text=text) == output


def test_yielded_files(iterating):
    output = iterating.output(files=True, n=2)
    assert output == [data(b"file 0", "text/plain"), data(b"file 1", "text/plain")]


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("none", None),
        ("str", "text"),
        ("int", 3),
        ("float", 1.5),
        ("bool", True),
        ("list", [1, 2, 3]),
        ("empty list", []),
        ("nested list", [[1], [2, 3]]),
        ("dict", {"a": {"c": [1]}, "b": 1}),
        ("tuple", [1, "two"]),
        ("namedtuple", [1, 2]),
        ("set", [7]),
        ("generator", [0, 1, 2]),
        ("enum", "red"),
        ("datetime", "2024-01-02T03:04:05+00:00"),
        ("numpy int", 4),
        ("numpy float", 0.5),
        ("numpy array", [[0, 1], [2, 3]]),
        ("cog model", {"file": None, "text": "t"}),
        ("pydantic", {"number": 1, "text": "t"}),
        ("dataclass", {"text": "t"}),
        ("unicode", "é \u2028 😀 \x00"),
    ],
)
def test_other_outputs(actions, text, output):
    assert actions.output(action="output", text=text) == output


@pytest.mark.parametrize("text", ["nan", "infinity", "bytes", "object", "numpy bool"])
def test_outputs_that_are_no_json_fail(actions, text):
    body = actions.predict(action="output", text=text)
    assert body["status"] == "failed"
    assert body["error"].startswith("Prediction failed: ")
    assert "output" not in body


def test_stringio(actions):
    body = actions.predict(action="output", text="stringio")
    status = expect(actions, coglet="failed", mirror="succeeded", because="stringio")
    assert body["status"] == status
    if status == "succeeded":
        assert base64.b64decode(body["output"].partition(",")[2]) == b"text in memory"


@pytest.mark.parametrize("text", ["missing file", "directory"])
def test_no_file_where_one_is_put_out(actions, text):
    status = actions.predict(action="output", text=text)["status"]
    assert status == expect(actions, coglet="succeeded", mirror="failed", because="missing-output")


@pytest.mark.parametrize("text", ["file", "files", "open file", "file in dict"])
def test_output_files_that_a_run_made_in_the_temporary_folder(settled, temporary, text):
    before = set(temporary.glob("*.*"))
    settled.output(action="output", text=text)
    stay = expect(settled, coglet=True, mirror=False, because="output-files")
    assert bool(set(temporary.glob("*.*")) - before) is stay
