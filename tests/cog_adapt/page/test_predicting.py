"""A prediction in the page: typed, run, cancelled, streamed, refused, found again."""

import re

import pytest
from playwright.sync_api import expect

from tests.cog_adapt.page.acts import run, until_ended

ACTIONS = "actions.py:Predictor"
PIXEL = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"
    b"\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xfc\xcf\xc0P\x0f\x00\x04\x85\x01\x80\x84\xa9\x8c!"
    b"\x00\x00\x00\x00IEND\xaeB`\x82"
)


@pytest.fixture(scope="module")
def server(start):
    with start(ACTIONS) as server:
        yield server


@pytest.fixture(scope="module")
def typed(start):
    with start("inputs.py:Predictor") as server:
        yield server


@pytest.fixture(scope="module")
def streaming(start):
    with start("streaming.py:Predictor") as server:
        yield server


@pytest.mark.short_page
def test_a_prediction_is_typed_and_its_output_and_logs_are_seen(visit, server):
    page = visit(server.url)
    page.fill("#input-action", "log")
    page.fill("#input-text", "hello there")
    run(page)
    until_ended(page, "succeeded")
    expect(page.locator("output-value pre")).to_have_text("hello there")
    page.locator("details.logs summary").click()
    expect(page.locator("log-view pre")).to_contain_text("one")


def test_every_type_of_input_reaches_the_predictor(visit, typed):
    page = visit(typed.url)
    page.fill("#input-s", "some text")
    page.fill("#input-n", "7")
    page.get_by_text("settings, with defaults").click()
    page.get_by_label("I, slider").fill("4")
    page.check("#input-b")
    page.select_option("#input-choice", label="green")
    page.fill("#input-secret", "hidden")
    page.get_by_role("button", name="Add to Tags").click()
    page.get_by_role("textbox", name="Tags 2").fill("second")
    page.fill("#input-mapping", '{"a": [1, null]}')
    page.set_input_files(
        "#input-path", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"in a file"}
    )
    expect(page.locator("#input-i")).to_have_value("4")
    run(page)
    until_ended(page, "succeeded")
    page.get_by_role("button", name="JSON", exact=True).last.click()
    said = re.sub(r"\s", "", page.locator("output-value pre").inner_text())
    for part in (
        '"s":["str","sometext"]',
        '"n":["int",7]',
        '"i":["int",4]',
        '"b":["bool",true]',
        '"choice":["str","green"]',
        '"secret":["Secret","hidden"]',
        '["str","second"]',
        '"mapping":["dict",{"a":[1,null]}]',
        '"inafile"',
    ):
        assert part in said


def test_a_problem_stands_at_its_input_and_has_the_focus(visit, typed):
    page = visit(typed.url)
    page.fill("#input-s", "x")
    page.fill("#input-n", "1")
    page.fill("#input-pattern", "NOT")
    run(page)
    until_ended(page, "refused")
    expect(page.locator("#input-pattern-problem")).to_be_visible()
    expect(page.locator("#input-pattern")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#input-pattern")).to_be_focused()
    expect(page.get_by_text("deprecated", exact=True)).to_have_count(1)


def test_the_request_is_json_and_the_form_again(visit, typed):
    page = visit(typed.url)
    page.fill("#input-s", "typed")
    page.fill("#input-secret", "hidden")
    page.get_by_role("button", name="JSON", exact=True).click()
    text = page.locator("#request-json").input_value()
    assert '"s": "typed"' in text
    assert "hidden" not in text
    page.fill("#request-json", text.replace("typed", "edited"))
    page.get_by_role("button", name="Form", exact=True).click()
    expect(page.locator("#input-s")).to_have_value("edited")
    expect(page.locator("#input-secret")).to_have_value("hidden")


def test_a_file_is_seen_before_it_is_sent_and_read(visit, server):
    page = visit(server.url)
    page.fill("#input-action", "read")
    page.set_input_files(
        "#input-file", {"name": "dot.png", "mimeType": "image/png", "buffer": PIXEL}
    )
    expect(page.locator("file-field img")).to_be_visible()
    run(page)
    until_ended(page, "succeeded")
    expect(page.locator("output-value")).to_contain_text("PNG")


@pytest.mark.parametrize("how", ["button", "Escape"])
def test_a_run_is_cancelled(visit, server, how):
    page = visit(server.url)
    page.fill("#input-action", "sleep")
    page.fill("#input-seconds", "600")
    with server.beginning():
        run(page)
    if how == "button":
        page.get_by_role("button", name="Cancel").click()
    else:
        page.keyboard.press("Escape")
    until_ended(page, "canceled")


def test_an_output_is_seen_while_it_grows(visit, streaming):
    page = visit(streaming.url)
    page.fill("#input-words", "first second third")
    page.fill("#input-seconds", "600")
    run(page)
    expect(page.locator("output-value pre")).to_have_text("first")
    expect(page.locator("[data-phase]")).to_have_attribute("data-phase", "running")
    page.get_by_role("button", name="Cancel").click()
    until_ended(page, "canceled")


def test_an_output_of_a_megabyte_does_not_freeze_the_page(visit, server):
    page = visit(server.url)
    page.fill("#input-action", "echo")
    page.evaluate("""document.querySelector('run-view').set({text: 'x'.repeat(1000000)})""")
    run(page)
    until_ended(page, "succeeded")
    expect(page.locator("output-value")).to_contain_text("characters more")
    page.fill("#input-action", "typed after it")
    expect(page.locator("#input-action")).to_have_value("typed after it")


def test_what_has_run_is_found_filtered_and_run_again(visit, server):
    page = visit(server.url)
    page.fill("#input-text", "to be found")
    run(page)
    until_ended(page, "succeeded")
    page.get_by_role("link", name="History").click()
    page.select_option("#status", "succeeded")
    row = page.locator(".entry", has_text="to be found").first
    row.get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"#/predictions/page-"))
    expect(page.locator("run-detail output-value pre")).to_have_text("to be found")
    page.get_by_role("button", name="curl").click()
    expect(page.locator("run-detail copy-as pre")).to_contain_text("curl -s 'http")
    again = visit(page.url, until="run-detail output-value")  # the link alone leads there
    expect(again.locator("run-detail h2")).to_have_text(page.locator("run-detail h2").inner_text())
    page.get_by_role("button", name="Run again").click()
    expect(page.locator("#predict #input-text")).to_have_value("to be found")


def test_an_output_grows_with_each_of_its_parts(visit, streaming):
    page = visit(streaming.url)
    page.fill("#input-words", "first second third")
    page.fill("#input-seconds", "4")
    run(page)
    expect(page.locator("output-value pre")).to_have_text("firstsecond")
    expect(page.locator("[data-phase]")).to_have_attribute("data-phase", "running")
    page.get_by_role("button", name="Cancel").click()
    until_ended(page, "canceled")


def test_runs_that_were_looked_at_hold_no_connection(visit, server):
    with server.beginning():
        names = [server.start(action="sleep", seconds=600)]
    names += [server.start(action="sleep", seconds=600) for _ in range(7)]
    page = visit(server.url)
    for name in names:
        page.evaluate("name => (location.hash = `#/predictions/${name}`)", name)
        expect(page.locator("run-detail h2")).to_have_text(name)
        expect(page.locator("run-detail [data-phase]")).to_be_visible()
    page.get_by_role("link", name="Server").click()
    expect(page.locator("server-view tbody")).to_contain_text("1 of 1")
    for name in reversed(names):
        server.cancel(name)
    server.until_idle()
