"""The documents build as a site whose links and anchors are there, with every page in its order."""

import importlib.util
import json

import pytest

from tests.site.pages import ROOT, build, gather, titles
from tests.site.reference import reference

needs_builder = pytest.mark.skipif(
    importlib.util.find_spec("zensical") is None,
    reason="needs zensical: pip install -r requirements-dev.txt",
)


@needs_builder
def test_the_site_has_every_page_and_finds_its_words(tmp_path):
    gather(tmp_path)
    assert build(tmp_path) == ""
    site = tmp_path / "site"
    for _, path in titles():
        page = path.replace("README.md", "index.html").replace(".md", ".html")
        assert (site / page).is_file(), page
    assert (site / "llms.txt").is_file()
    found = json.loads((site / "search.json").read_text())["items"]
    assert any("inference_mode" in json.dumps(each) for each in found)


@needs_builder
def test_a_link_to_nowhere_fails_the_build(tmp_path):
    gather(tmp_path)
    wrong = {"workers": "absent.md", "backup": "README.md#no-such-heading"}
    for name, target in wrong.items():
        page = tmp_path / "pages" / "docs" / f"{name}.md"
        page.write_text(f"{page.read_text()}\n[there]({target})\n")
    said = build(tmp_path)
    assert [name for name in wrong if f"{name}.md" not in said] == []


def test_every_page_is_in_the_navigation_and_in_the_table_of_questions():
    pages = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert pages - {path for _, path in titles()} == set()
    table = (ROOT / "docs" / "README.md").read_text()
    assert {page for page in pages if f"]({page[5:]})" not in table} == {"docs/README.md"}


def test_the_pages_that_the_code_implies_are_those_of_this_code():
    for path, text in reference().items():
        assert (ROOT / path).read_text() == text, f"{path}: run `make site`"
