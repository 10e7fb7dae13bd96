"""Files of the caller's machine, on their way to a server and back."""

import contextlib
import json

import pytest

from cog_adapt.client import FileNotWritten, RefusedInput
from cog_adapt.client.files import encode_inputs, write_file, writing


def test_each_path_becomes_a_data_uri_and_all_else_stays(tmp_path):
    (tmp_path / "a.png").write_bytes(b"A")
    (tmp_path / "b").write_bytes(b"B")
    inputs = {"one": tmp_path / "a.png", "rows": ({"x": tmp_path / "b", "y": "/b"}, 1.5, None)}
    assert json.loads(encode_inputs(inputs, 2))["input"] == {
        "one": "data:image/png;base64,QQ==",
        "rows": [{"x": "data:application/octet-stream;base64,Qg==", "y": "/b"}, 1.5, None],
    }


def test_files_of_a_request_have_a_limit_together(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"123")
    encode_inputs({"files": [path, path]}, 6)
    with pytest.raises(RefusedInput, match="more than 2 bytes.*max_file_bytes") as caught:
        encode_inputs({"files": [path, path]}, 5)
    assert (caught.value.field, caught.value.value, caught.value.status) == ("files.1", path, None)


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), b"bytes"])
def test_what_is_no_json_is_refused(value):
    with pytest.raises(RefusedInput, match="^a: it is no JSON: .*Send texts"):
        encode_inputs({"b": 1, "a": value}, 1)


def test_a_file_that_is_not_there_is_refused_with_its_field(tmp_path):
    with pytest.raises(RefusedInput, match="^a.b: .*none cannot be read: No such file"):
        encode_inputs({"a": {"b": tmp_path / "none"}}, 1)


def test_a_file_is_written_under_its_name_or_the_one_that_is_offered(tmp_path):
    assert write_file(tmp_path, "../a.zip", b"12") == tmp_path / "a.zip"
    assert write_file(tmp_path / "b", "a.zip", b"3").read_bytes() == b"3"
    assert (tmp_path / "a.zip").read_bytes() == b"12"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.zip", "b"]


def test_a_download_that_breaks_off_leaves_the_file_before(tmp_path):
    (tmp_path / "a").write_bytes(b"before")
    with contextlib.suppress(KeyboardInterrupt), writing(tmp_path / "a") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"before"]
    for path, reason in (("none/a", "No such file or directory"), ("a/b", "Not a directory")):
        with pytest.raises(FileNotWritten, match=f"cannot be written: {reason}"):
            write_file(tmp_path / path, "x", b"")
