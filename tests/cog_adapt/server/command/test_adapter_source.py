"""How adapters are shown, and how their files are written."""

import pytest

from cog_adapt.server.command.adapter_source import as_json, as_lines, write_portions
from cog_adapt.server.errors import StorageError

NAMED = {"id": "a" * 16, "name": "support", "version": 3, "owner": "ada", "examples": 60, "hits": 2}
NAMED |= {"recipe": {"method": "lora"}, "created_at": "2026-11-22T10:00:00.123456+00:00"}


def test_each_adapter_is_a_line():
    bare = {"id": "b" * 16, "name": None, "owner": "", "recipe": None, "examples": None}
    head, named, nobodys = as_lines([NAMED, bare])
    assert head.split() == ["ID", "NAME", "OWNER", "METHOD", "EXAMPLES", "HITS", "CREATED"]
    assert named.split() == [
        "a" * 16,
        "support@v3",
        "ada",
        "lora",
        "60",
        "2",
        "2026-11-22T10:00:00",
    ]
    assert nobodys.split() == ["b" * 16, *"-" * 6]
    assert as_json({"a": "\u00e9"}) == '{\n  "a": "\u00e9"\n}'


def test_a_file_is_written_under_its_name_or_the_one_that_is_offered(tmp_path):
    assert write_portions(tmp_path, "../a.zip", iter([b"1", b"2"])) == tmp_path / "a.zip"
    assert write_portions(tmp_path / "b", "a.zip", iter([b"3"])).read_bytes() == b"3"
    assert (tmp_path / "a.zip").read_bytes() == b"12"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.zip", "b"]


def test_a_file_that_breaks_off_leaves_the_one_before(tmp_path):
    def portions():
        yield b"half"
        raise StorageError("broken off")

    (tmp_path / "a").write_bytes(b"before")
    with pytest.raises(StorageError, match="broken off"):
        write_portions(tmp_path / "a", "x", portions())
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"before"]
    with pytest.raises(StorageError, match="cannot be written: No such file or directory"):
        write_portions(tmp_path / "none" / "a", "x", iter([b""]))
