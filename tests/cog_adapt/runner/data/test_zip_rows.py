"""A ZIP file with a folder for each target becomes rows; what is hostile in it is refused."""

import io
import stat
import zipfile

import pytest

from cog_adapt.runner.data import zip_rows as module
from cog_adapt.runner.data.examples import Example, ExampleLimits, parse_examples, read_examples
from cog_adapt.runner.data.files import ZIP_MARK
from cog_adapt.runner.data.row import Fault
from cog_adapt.runner.data.zip_rows import zip_rows
from cog_adapt.runner.errors import InputError

MOST = 100
CAT = b"a cat, by its bytes"


def packed(*members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


def read(content):
    return [
        (row.problem if isinstance(row, Fault) else (row.place, dict(row)))
        for row in zip_rows(content, MOST).each
    ]


def test_a_folder_is_a_target():
    content = packed(("set/cats/1.png", CAT), ("dogs/2.JPG", b"2"))
    assert read(content) == [
        ("'set/cats/1.png'", {"input": CAT, "target": "cats"}),
        ("'dogs/2.JPG'", {"input": b"2", "target": "dogs"}),
    ]


def test_a_file_of_examples_may_be_one(tmp_path):
    (tmp_path / "cats.zip").write_bytes(packed(("cats/1.png", CAT), ("dogs/2.png", b"2")))
    found = read_examples(tmp_path / "cats.zip")
    assert found.examples == [Example(CAT, "cats"), Example(b"2", "dogs")]
    assert not found.warnings


def test_the_same_picture_under_two_labels_is_warned_about():
    found = parse_examples(packed(("cats/1.png", CAT), ("dogs/2.png", CAT)))
    assert "'dogs' in 'dogs/2.png' and 'cats' in 'cats/1.png'" in found.warnings[0]


@pytest.mark.parametrize("name", ["cats/", "cats/.1.png", "__MACOSX/cats/1.png", "cats/notes.txt"])
def test_what_is_no_file_of_examples_is_left_out(name):
    assert len(read(packed(("cats/1.png", CAT), (name, b"")))) == 1


def test_a_text_in_a_folder_is_no_caption_of_a_file_in_none():
    assert read(packed(("a.png", CAT), ("notes/a.txt", "of another"))) == [
        ("'a.png'", {"input": CAT, "name": "a"})
    ]


def test_links_are_left_out():
    link = zipfile.ZipInfo("cats/link.png")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    assert len(read(packed(("cats/1.png", CAT), (link, b"/etc/passwd")))) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../cats/1.png", "leads out of the file"),
        ("/cats/1.png", "leads out of the file"),
        ("a/../../cats/1.png", "leads out of the file"),
        ("cats\\..\\a/1.png", "leads out of the file"),
    ],
)
def test_names_that_lead_elsewhere_are_refused(name, said):
    assert said in read(packed((name, CAT)))[0]


def test_a_file_in_no_folder_has_a_name_and_the_caption_beside_it():
    content = packed(("b.txt", "\ufeffa photo of TOK\n"), ("a.png", CAT), ("b.jpg", b"2"))
    assert read(content) == [
        ("'a.png'", {"input": CAT, "name": "a"}),
        ("'b.jpg'", {"input": b"2", "name": "b", "caption": "a photo of TOK"}),
    ]
    found = parse_examples(content, lambda row: Example(row["input"], row.get("caption")))
    assert found.examples == [Example(CAT, None), Example(b"2", "a photo of TOK")]


def test_a_task_that_needs_a_target_refuses_a_file_in_no_folder():
    with pytest.raises(InputError, match=r"'1.png': it lies in no folder. Give a folder for each"):
        parse_examples(packed(("1.png", CAT), ("1.txt", "cat")))


@pytest.mark.parametrize(
    ("caption", "said"),
    [
        (b"\xff\xfe", "its caption 'a.txt' is no UTF-8"),
        (b"a" * 65_537, "its caption 'a.txt' has 65,537 bytes; the limit is 65,536"),
    ],
)
def test_a_caption_that_cannot_be_one_is_refused(caption, said):
    assert said in read(packed(("a.png", CAT), ("a.txt", caption)))[0]


def test_captions_without_files_are_no_examples():
    with pytest.raises(InputError, match="has no files of examples"):
        zip_rows(packed(("a.txt", "a photo")), MOST)


def test_what_unpacks_to_far_more_than_it_has_is_refused():
    bomb = packed(("cats/1.png", bytes(10**6)), compression=zipfile.ZIP_DEFLATED)
    assert "more than 100 times its size" in read(bomb)[0]


def test_members_are_counted_before_they_are_read():
    content = packed(*((f"cats/{number}.png", b"") for number in range(MOST + 1)))
    with pytest.raises(InputError, match="more than 100 members"):
        zip_rows(content, MOST)
    with pytest.raises(InputError, match="more than 100 members"):
        parse_examples(content, limits=ExampleLimits(max_examples=MOST))


def test_bytes_are_counted_before_they_are_read(monkeypatch):
    monkeypatch.setattr(module, "MOST_FILE_BYTES", 10)
    assert "it has 19 bytes; the limit is 10" in read(packed(("cats/1.png", CAT)))[0]
    monkeypatch.setattr(module, "MOST_BYTES", 18)
    with pytest.raises(InputError, match="holds 19 bytes; the limit is 18"):
        zip_rows(packed(("cats/1.png", CAT)), MOST)


def test_a_size_that_lies_is_found_out():
    content = bytearray(packed(("cats/1.png", CAT)))
    place = content.index(b"PK\x01\x02")
    content[place + 24 : place + 28] = (5).to_bytes(4, "little")
    assert "cannot be read" in read(bytes(content))[0]


def test_broken_and_empty_files_are_refused():
    with pytest.raises(InputError, match="cannot be read"):
        zip_rows(ZIP_MARK + b"no more", MOST)
    with pytest.raises(InputError, match="has no files of examples"):
        zip_rows(packed(("notes.txt", b"")), MOST)


def test_an_encrypted_member_is_refused():
    content = bytearray(packed(("cats/1.png", CAT)))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    assert "encrypted" in read(bytes(content))[0]
