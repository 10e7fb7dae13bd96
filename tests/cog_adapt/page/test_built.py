"""What is built is what the sources say, and the sources know the server's own document.

No browser and no node are needed here: both are compared as files.
"""

import gzip
import hashlib
import json
import re
from pathlib import Path

from tests.cog_adapt.page.document import DOCUMENT, text

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "page"
BUILT = ROOT / "cog_adapt" / "server" / "page"
AT_THE_TOP = {
    *("index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts"),
}
MOST_BYTES = 150_000
REMEDY = "run `make page`, and commit what it writes"


def sources():
    inside = (PAGE / "src").rglob("*")
    names = [
        path.relative_to(PAGE).as_posix()
        for path in inside
        if path.is_file() and not path.name.endswith(".test.ts")
    ]
    return sorted([*AT_THE_TOP, *names])


def test_the_built_page_is_of_these_sources():
    whole = hashlib.sha256()
    for name in sources():
        whole.update(f"{name}\0".encode() + (PAGE / name).read_bytes() + b"\0")
    assert (BUILT / "sources.sha256").read_text().strip() == whole.hexdigest(), REMEDY


def test_the_page_refers_to_the_files_that_are_there_and_to_no_other_host():
    index = (BUILT / "index.html").read_text()
    named = set(re.findall(r'(?:src|href)="playground/assets/([^"]+)"', index))
    assert named == {path.name for path in (BUILT / "assets").iterdir()}
    assert not re.search(r'(?:src|href)="(?:https?:)?//', index)
    assert not re.search(r"<script(?![^>]* src=)|<style| on\w+=| style=", index)


def test_all_that_is_loaded_is_small():
    files = [BUILT / "index.html", *(BUILT / "assets").iterdir()]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < MOST_BYTES


def test_the_types_are_made_from_the_servers_document_of_now():
    remedy = "run `make page-types`, mend what tsc finds, then `make page`"
    assert DOCUMENT.read_text() == text(), remedy


def test_nothing_in_the_sources_parses_html_that_came_over_the_wire():
    for path in (PAGE / "src").rglob("*.ts"):
        words = re.findall(
            r"innerHTML|outerHTML|unsafeHTML|insertAdjacentHTML|eval\(", path.read_text()
        )
        assert words == [], path.name


def test_every_dependency_is_pinned():
    package = json.loads((PAGE / "package.json").read_text())
    versions = {**package["dependencies"], **package["devDependencies"]}
    assert [name for name, version in versions.items() if not version[0].isdigit()] == []


def test_each_component_has_a_folder_of_its_own_with_its_elements():
    loose = [path.name for path in (PAGE / "src").glob("*.ts")]
    assert loose == ["main.ts"]


def test_each_folder_of_the_sources_has_its_tests():
    folders = {path.parent for path in (PAGE / "src").rglob("*.ts")} - {PAGE / "src"}
    untested = {folder.name for folder in folders if not list(folder.glob("*.test.ts"))}
    assert untested == {"testing"}
