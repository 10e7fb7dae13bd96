"""The files of the built page are read once, and those alone."""

import gzip

from cog_adapt.server.api.page_files import PageFile


def test_a_file_has_its_type_by_its_suffix_alone(tmp_path):
    def type_of(name):
        (tmp_path / name).write_bytes(b"<html>")
        return PageFile.read(tmp_path / name).media_type

    types = {name: type_of(name) for name in ("a.js", "a.css", "a.svg", "a.png", "a.woff2", "a")}
    assert types == {
        "a.js": "text/javascript; charset=utf-8",
        "a.css": "text/css; charset=utf-8",
        "a.svg": "image/svg+xml",
        "a.png": "image/png",
        "a.woff2": "font/woff2",
        "a": "application/octet-stream",
    }


def test_its_tag_changes_with_the_content_and_its_zipped_form_is_the_same_bytes(tmp_path):
    (tmp_path / "a.js").write_text("let a = 1;" * 100)
    one = PageFile.read(tmp_path / "a.js")
    assert gzip.decompress(one.zipped) == one.content
    assert len(one.zipped) < len(one.content)
    assert PageFile.read(tmp_path / "a.js") == one
    (tmp_path / "a.js").write_text("let a = 2;" * 100)
    assert PageFile.read(tmp_path / "a.js").etag != one.etag
