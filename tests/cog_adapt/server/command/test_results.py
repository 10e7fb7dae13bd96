"""Outputs on disk: names, contents, and what is left to show."""

import base64

import pytest

from cog_adapt.server.command.results import OutputPath, as_text, write_files
from cog_adapt.server.errors import InputError, StorageError

SAFETENSORS = (2).to_bytes(8, "little") + b"{}"


def uri(content: bytes = b"x", kind: str = "text/plain") -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("output", "named", "names", "rest"),
    [
        (uri(), None, ["output.txt"], None),
        (uri(kind="image/png"), None, ["output.png"], None),
        (uri(kind="application/octet-stream"), None, ["output"], None),
        (uri(SAFETENSORS, "application/octet-stream"), None, ["output.safetensors"], None),
        (uri(), "mine", ["mine.txt"], None),
        (uri(), "mine.dat", ["mine.dat"], None),
        (uri(), "folder", ["folder/output.txt"], None),
        ([uri(), uri()], None, ["output.0.txt", "output.1.txt"], None),
        ([uri()], None, ["output.0.txt"], None),
        ([uri(), uri()], "mine.dat", ["mine.0.dat", "mine.1.dat"], None),
        ({"w": uri()}, None, ["output.txt"], {"w": "output.txt"}),
        (
            {"w": uri(), "v": [uri(), 1]},
            None,
            ["output.w.txt", "output.v.0.txt"],
            {"w": "output.w.txt", "v": ["output.v.0.txt", 1]},
        ),
        ([uri(), 3], None, ["output.0.txt"], ["output.0.txt", 3]),
        ("data: about cats", None, [], "data: about cats"),
        ("data:,plain", None, [], "data:,plain"),
        ([1, None], None, [], [1, None]),
    ],
)
def test_files_are_written_and_the_rest_is_left(folder, output, named, names, rest):
    (folder / "folder").mkdir()
    found, paths = write_files(output, OutputPath(named and folder / named, "output"))
    assert [str(path.absolute().relative_to(folder)) for path in paths] == names
    assert found == rest
    assert all(path.read_bytes() in (b"x", SAFETENSORS) for path in paths)


def test_a_name_from_the_server_cannot_leave_the_folder(folder):
    _, paths = write_files({"../../up": uri(), "/etc/x": uri()}, OutputPath(None, "output"))
    assert {path.absolute().parent for path in paths} == {folder}


def test_a_folder_that_is_not_there_is_refused_before_the_run(folder):
    OutputPath(folder / "new", "output").check()
    with pytest.raises(InputError, match="there is no folder"):
        OutputPath(folder / "missing" / "new", "output").check()


def test_a_file_that_cannot_be_written_is_named(folder):
    (folder / "output.txt").mkdir()
    with pytest.raises(StorageError, match="output.txt cannot be written: Is a directory"):
        write_files(uri(), OutputPath(None, "output"))


def test_text_is_shown_as_it_is_and_the_rest_as_json():
    assert as_text("a\n") == "a\n"
    assert as_text({"é": 1}) == '{\n  "é": 1\n}'
    assert as_text(None) == "null"
