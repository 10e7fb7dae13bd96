"""The files of the built page are read once, and those alone."""

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


def test_its_tag_changes_with_the_content(tmp_path):
    (tmp_path / "a.js").write_text("let a = 1;")
    one = PageFile.read(tmp_path / "a.js")
    (tmp_path / "a.js").write_text("let a = 2;")
    assert PageFile.read(tmp_path / "a.js").etag != one.etag
