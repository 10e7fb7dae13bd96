"""A ZIP file at either door takes no more memory than its bounds, whatever it declares.

The doors are `examples_file` and an uploaded adapter. Memory is the resident
high-water mark, since `zipfile` unpacks in C, where `tracemalloc` sees nothing.
"""

import re
import zipfile

import pytest
from torch import nn

from cog_adapt.runner.data.examples import parse_examples, read_examples
from cog_adapt.runner.data.zip_rows import MOST_FILE_BYTES
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.storage.peft_format import CONFIG, TENSORS, PeftFormat
from tests.cog_adapt.decoders.peak import risen
from tests.cog_adapt.decoders.zips import END, ENTRY, bomb, packed, patched

PICTURE = "cats/1.png"
MOST_MB = 32  # that memory may rise by for a file of a few kB
BLOCKS = 64  # MiB that a bomb has


def read_at(door, content, folder):
    """Read a file at a door; return the refusal, and by how many MB memory rose."""
    path = folder / "bomb.zip"
    path.write_bytes(content)
    read = read_examples if door == "examples" else PeftFormat(nn.Identity(), "b" * 16, "head").read
    with risen() as rise, pytest.raises(InputError) as refused:
        read(path)
    return str(refused.value), rise.mb


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (zipfile.ZIP_BZIP2, "packed by bzip2; stored and deflate are read"),
        (zipfile.ZIP_LZMA, "packed by LZMA; stored and deflate are read"),
        (zipfile.ZIP_DEFLATED, "cannot be read"),
    ],
)
@pytest.mark.parametrize(("door", "name"), [("examples", PICTURE), ("adapter", TENSORS)])
def test_a_member_of_more_bytes_than_it_declares_takes_no_memory(
    tmp_path, door, name, method, said
):
    said_of_it, rise = read_at(door, bomb(name, method, 1000, BLOCKS), tmp_path)
    assert said in said_of_it
    assert rise < MOST_MB


@pytest.mark.parametrize(("door", "name"), [("examples", PICTURE), ("adapter", TENSORS)])
def test_a_member_that_unpacks_to_far_more_is_refused_before_it_is_unpacked(tmp_path, door, name):
    size = 15 if door == "examples" else BLOCKS
    content = bomb(name, zipfile.ZIP_DEFLATED, size * 2**20, size)
    said, rise = read_at(door, content, tmp_path)
    assert re.search(r"it unpacks to more than \d+ times its size in the ZIP file", said)
    assert rise < 8


def refusal(content):
    with pytest.raises(InputError) as refused:
        parse_examples(content)
    return str(refused.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (patched(packed((PICTURE, b"cat")), ENTRY, 24, 2), "cannot be read"),
        (patched(packed((PICTURE, b"cat")), ENTRY, 24, 4), "declares 4 bytes, and has 3"),
        (patched(packed((PICTURE, b"cat")), ENTRY, 20, 2**31), "members of it overlap"),
        (patched(packed((PICTURE, b"cat")), ENTRY, 10, 99, 2), "packed by method 99"),
        (patched(packed((PICTURE, b"cat")), ENTRY, 8, 1, 2), "is encrypted"),
        (patched(packed((PICTURE, b"cat")), ENTRY, 8, 64, 2), "is encrypted"),
        (patched(packed((PICTURE, b"cat")), END, 10, 7, 2), "declares 7 members, but lists 1"),
        (patched(packed((PICTURE, b"cat")), END, 10, 65535, 2), "more than 10,000 members"),
        (patched(packed((PICTURE, b"cat")), END, 12, 2**30), "its directory has"),
        (packed((PICTURE, b"cat"))[:-5], "its end is missing"),
    ],
)
def test_a_directory_that_lies_is_refused_in_words(content, said):
    assert said in refusal(content)


def test_an_adapter_whose_directory_is_long_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "a.zip"
    path.write_bytes(packed(*((f"{number}", b"") for number in range(101))))
    with pytest.raises(InputError, match="more than 100 members"):
        PeftFormat(nn.Identity(), "b" * 16, "head").read(path)


def test_members_of_too_many_bytes_together_are_refused_before_one_is_unpacked():
    content = packed(*((f"cats/{number}.png", b"cat") for number in range(9)))
    for number in range(9):
        content = patched(content, ENTRY, 24, 15 * 2**20, which=number)
    assert "holds 141,557,760 bytes; the limit is 134,217,728" in refusal(content)


def test_a_config_of_too_many_bytes_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "a.zip"
    path.write_bytes(packed((CONFIG, b"{" * (2**20 + 1)), (TENSORS, b"")))
    with pytest.raises(InputError, match=f"{CONFIG} has more than 1,048,576 bytes"):
        PeftFormat(nn.Identity(), "b" * 16, "head").read(path)


def test_members_that_share_bytes_are_refused():
    two = packed((PICTURE, b"cat"), ("dogs/2.png", b"dog"))
    assert "members of it overlap" in refusal(patched(two, ENTRY, 42, 0, which=1))


def test_two_members_of_one_name_are_refused():
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = packed((PICTURE, b"cat"), (PICTURE, b"dog"))
    assert f"two members named '{PICTURE}'" in refusal(twice)


def test_a_file_of_the_kind_zip64_is_refused():
    content = packed((PICTURE, b"cat"))
    end = content.index(END)
    longer = content[:end] + b"PK\x06\x07" + bytes(16) + content[end:]
    assert "has the ZIP64 format" in refusal(longer)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_both_methods_are_read_up_to_the_limit(method):
    picture = bytes(range(256)) * 1000
    found = parse_examples(packed((PICTURE, picture), ("dogs/2.png", b"dog"), method=method))
    assert [example.input for example in found.examples] == [picture, b"dog"]
    too_long = packed((PICTURE, bytes(MOST_FILE_BYTES + 1)), method=method)
    assert f"the limit is {MOST_FILE_BYTES:,}" in refusal(too_long)
