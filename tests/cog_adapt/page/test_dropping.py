"""Files that are dropped onto the page, by the browser's own drag and drop."""

import base64
import json

import pytest
from playwright.sync_api import expect

from tests.cog_adapt.page.acts import drop, run, until_ended
from tests.cog_adapt.page.seen import expect_seen
from tests.cog_adapt.page.test_predicting import PIXEL


@pytest.fixture(scope="module")
def server(start):
    with start("actions.py:Predictor") as server:
        yield server


@pytest.fixture(scope="module")
def typed(start):
    with start("inputs.py:Predictor") as server:
        yield server


@pytest.fixture(scope="module")
def rows(start):
    with start("rows.py:Predictor") as server:
        yield server


@pytest.mark.short_page
def test_a_dropped_file_is_seen_and_reaches_the_predictor(visit, server, tmp_path):
    file = tmp_path / "dot.png"
    file.write_bytes(PIXEL)
    page = visit(server.url)
    page.fill("#input-action", "read")
    drop(page, "file-field .drop", file)
    shown = page.locator("file-field img")
    expect(shown).to_have_attribute("alt", "dot.png")
    expect(shown).to_have_js_property("naturalWidth", 1)
    run(page)
    until_ended(page, "succeeded")
    expect(page.locator("output-value dt", has_text="content").locator("+ dd")).to_contain_text(
        "PNG"
    )


def test_a_dropped_file_of_no_known_type_is_sent_byte_for_byte(visit, server, tmp_path):
    file = tmp_path / "odd.unknownsuffix"
    file.write_bytes(bytes(range(256)))
    page = visit(server.url)
    drop(page, "file-field .drop", file)
    expect(page.locator("file-field .preview")).to_contain_text("256 bytes")
    page.get_by_role("button", name="JSON", exact=True).click()
    sent = json.loads(page.locator("#request-json").input_value())["input"]["file"]
    assert base64.b64decode(sent.partition(",")[2]) == bytes(range(256))


def test_a_file_is_dropped_into_a_list_of_files(visit, typed, tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("in a list")
    page = visit(typed.url)
    page.fill("#input-s", "x")
    page.fill("#input-n", "1")
    drop(page, "files-field .drop", file)
    expect(page.get_by_label("Remove Paths 1")).to_be_visible()
    run(page)
    until_ended(page, "succeeded")
    expect(page.locator("output-value")).to_contain_text("in a list")


def test_a_file_that_misses_its_place_does_not_lose_what_is_typed(visit, server, tmp_path):
    file = tmp_path / "missed.txt"
    file.write_text("not to be opened")
    page = visit(server.url)
    page.fill("#input-text", "typed before")
    page.evaluate("addEventListener('drop', event => { window.kept = event.defaultPrevented; })")
    drop(page, "header h1", file)
    page.wait_for_function("window.kept === true")  # else the browser may open the file
    expect(page.locator("#input-text")).to_have_value("typed before")
    assert page.url.startswith(server.url)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.csv", 'text,label\n"one, and",a\ntwo,b\n'),
        ("rows.jsonl", '{"text": "one, and", "label": "a"}\n{"text": "two", "label": "b"}\n'),
        ("rows.json", '{"a": ["one, and"], "b": ["two"]}'),
    ],
)
def test_dropped_examples_are_rows_and_reach_the_predictor(visit, rows, tmp_path, name, text):
    file = tmp_path / name
    file.write_text(text)
    page = visit(rows.url)
    drop(page, "examples-editor .drop", file)
    expect(page.locator("examples-editor")).to_contain_text("2 examples, 2 labels")
    expect(page.get_by_label("text of row 1")).to_have_value("one, and")
    expect_seen(page.get_by_label("text of row 1"))
    run(page)
    until_ended(page, "succeeded")
    expect(page.locator("output-value dt", has_text="count").locator("+ dd")).to_contain_text("2")
    expect(page.locator("output-value")).to_contain_text('"one, and"')


def test_rows_that_cannot_be_read_are_said_and_the_others_taken(visit, rows, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("text,label\nfine,a\ntoo,many,values\n")
    page = visit(rows.url)
    drop(page, "examples-editor .drop", file)
    expect(page.locator("examples-editor .problem")).to_have_text(
        "Record 3 has 3 values for 2 columns."
    )
    expect(page.locator("examples-editor")).to_contain_text("1 example,")
