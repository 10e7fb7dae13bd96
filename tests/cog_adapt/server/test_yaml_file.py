from typing import Any

import pytest

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.yaml_file import read_yaml

TEXT = """\
# a comment
build:
  gpu: true
  run:
    - echo a
    - command: b
      mounts: []
1: number
weights: [{name: a}, {name: b}]
"""


def write(tmp_path, text):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    return path


def refused(path):
    with pytest.raises(ConfigError) as caught:
        read_yaml(path)
    return str(caught.value)


def test_values_are_plain_python(tmp_path):
    file = read_yaml(write(tmp_path, TEXT))
    assert file.path == tmp_path / "a.yaml"
    assert file.value == {
        "build": {"gpu": True, "run": ["echo a", {"command": "b", "mounts": []}]},
        1: "number",
        "weights": [{"name": "a"}, {"name": "b"}],
    }
    frozen: Any = file
    with pytest.raises(AttributeError):
        frozen.value = None


@pytest.mark.parametrize(
    ("location", "line", "name"),
    [
        ((), 2, ""),
        (("build",), 2, "build"),
        (("build", "gpu"), 3, "build.gpu"),
        (("build", "run"), 4, "build.run"),
        (("build", "run", 0), 5, "build.run.0"),
        (("build", "run", 1, "mounts"), 7, "build.run.1.mounts"),
        ((1,), 8, "1"),
        (("weights", 1, "name"), 9, "weights.1.name"),
        (("build", "cuda"), 2, "build"),
        (("build", "function-after", "gpu"), 3, "build.gpu"),
        (("build", "run", 7, "command"), 4, "build.run"),
        (("nowhere",), 2, ""),
    ],
)
def test_a_value_is_found_by_line_and_name(tmp_path, location, line, name):
    path = write(tmp_path, TEXT)
    assert read_yaml(path).find(location) == (f"{path}:{line}", name)


def test_an_empty_file_has_no_value_and_one_line(tmp_path):
    path = write(tmp_path, "# nothing\n")
    file = read_yaml(path)
    assert (file.value, file.root) == (None, None)
    assert file.find(("build",)) == (f"{path}:1", "")


def test_a_missing_file_is_named(tmp_path):
    path = tmp_path / "none.yaml"
    assert refused(path) == f"{path} does not exist; create it or name another file."


@pytest.mark.parametrize("data", [b"\xff", b"a: \x00"])
def test_what_is_no_text_is_refused(tmp_path, data):
    path = tmp_path / "a.yaml"
    path.write_bytes(data)
    assert refused(path).startswith(f"{path} cannot be read as UTF-8 text: ")


def test_a_folder_is_no_file(tmp_path):
    assert "cannot be read" in refused(tmp_path)


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("a: [1\nb: 2\n", ":2:2", "while parsing a flow sequence, expected ',' or ']'"),
        ("a: 'b\n", ":2:1", "while scanning a quoted scalar, found unexpected end of stream"),
        ("a: 1\n--- \nb: 2\n", ":2:1", "expected a single document"),
        ("a: *b\n", ":1:4", "found undefined alias 'b'"),
        ("a:\n  b: !!python/object:x {}\n", ":2:6", "could not determine a constructor"),
    ],
)
def test_what_is_no_yaml_is_refused_where_it_stands(tmp_path, text, place, reason):
    path = write(tmp_path, text)
    message = refused(path)
    assert message.startswith(f"{path}{place}: no YAML: ")
    assert reason in message
    assert message.endswith(". Correct the line.")


def test_a_date_that_there_never_was_is_refused(tmp_path):
    path = write(tmp_path, "a: 2026-02-31\n")
    assert refused(path).startswith(f"{path}: no YAML: day is out of range")


def test_every_key_that_is_there_twice_is_named_with_both_lines(tmp_path):
    path = write(tmp_path, "a: 1\nb:\n  - c: 1\n    d: 2\n    c: 3\na: 4\na: 5\n")
    assert refused(path).split("\n") == [
        f"{path}:6: a is here a second time, after line 1; keep one.",
        f"{path}:7: a is here a second time, after line 1; keep one.",
        f"{path}:5: c is here a second time, after line 3; keep one.",
    ]


def test_an_alias_is_looked_through_once(tmp_path):
    file: Any = read_yaml(write(tmp_path, "a: &a {b: 1}\nc: *a\nd: &d [*d]\n"))
    assert file.value["c"] == {"b": 1}
