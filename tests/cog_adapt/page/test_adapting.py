"""An adaptation in the page: its curve while it learns, its answers, what its adapter is for."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.cog_adapt.page.acts import paste, run, set_up, until_ended

pytest.importorskip("task", reason="the shipped task is not here")

ROOT = Path(__file__).parents[3]
IMAGES = ROOT / "docs" / "images"
TICKETS = (ROOT / "examples" / "tickets.csv").read_text()
TEXTS = ["My parcel has not come.", "I cannot log in any more."]


def picture(page, name):
    """Take a picture for the documentation, where that is asked for."""
    if os.environ.get("PAGE_IMAGES"):
        page.screenshot(path=IMAGES / f"{name}.png")


@pytest.mark.short_page
def test_one_sees_the_model_learn_and_keeps_what_it_has_learned(visit, template):
    page = visit(template.url, viewport={"width": 1280, "height": 1000})
    paste(page, "#input-examples", TICKETS)
    expect(page.locator("examples-editor")).to_contain_text("48 examples, 6 labels")
    set_up(page, texts=TEXTS, method="lora", steps=12)
    run(page)
    expect(page.locator("adaptation-panel progress")).to_be_visible()
    expect(page.locator("loss-chart canvas")).to_be_visible()
    until_ended(page, "succeeded")
    expect(page.locator("adaptation-panel")).to_contain_text("step 12 of 12")
    expect(page.locator("adaptation-panel")).to_contain_text("gradient norm")
    rows = page.locator("answer-list .answer")
    expect(rows).to_have_count(2)
    expect(page.locator("answer-list .glance")).to_contain_text("Teaching changed")
    expect(rows.first.locator(".asked")).to_have_text(TEXTS[0])
    expect(page.locator(".words").first).to_contain_text("The model adapted to 48 examples by lora")
    page.get_by_label("Name", exact=True).fill("support")
    page.get_by_role("button", name="Keep this adapter").click()
    expect(page.get_by_text("Kept as support, version 1.")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download", exact=True).click()
    assert download.value.suggested_filename.endswith(".safetensors")
    after = rows.first.locator(".answer-label").inner_text()
    page.get_by_role("button", name="Use in the next request").click()
    expect(page.locator("examples-table")).to_have_count(0)
    run(page)
    until_ended(page, "succeeded")
    expect(page.locator("answer-list .answer-label").first).to_have_text(after)


def test_two_adapters_are_compared_on_the_same_inputs(visit, template):
    texts = [*TEXTS, "I forgot my password and the reset mail never comes."]
    for method in ("lora", "head"):
        template.output(texts=texts, examples=TICKETS, method=method, steps=2)
    page = visit(template.url, viewport={"width": 1280, "height": 800})
    set_up(page, texts=texts)
    page.get_by_role("link", name="History").click()
    page.get_by_role("link", name="Adapters").click()
    boxes = page.locator("adapters-list input[type=checkbox]")
    boxes.nth(0).check()
    boxes.nth(1).check()
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.locator("adapter-compare tbody tr")).to_have_count(3)
    expect(page.locator("adapter-compare tbody")).to_contain_text("%")
    page.locator("adapter-compare table").scroll_into_view_if_needed()
    picture(page, "page-adapters")


def test_an_adaptation_is_cancelled_by_escape(visit, template):
    page = visit(template.url)
    paste(page, "#input-examples", TICKETS)
    set_up(page, texts=TEXTS, method="lora", steps=2000, seed=7)
    run(page)
    expect(page.locator("adaptation-panel progress")).to_be_visible()
    page.keyboard.press("Escape")
    until_ended(page, "canceled")


def test_a_bad_row_is_marked_in_its_place(visit, template):
    page = visit(template.url)
    paste(page, "#input-examples", "text,label\nfine,a\n,b\nalso fine,a\n")
    expect(page.locator(".marks .problem")).to_have_text("Row 2: text: empty")
    set_up(page, texts=TEXTS)
    run(page)
    until_ended(page, "failed")
    expect(page.locator(".marks .problem")).to_contain_text("Row 2: the text is empty")
    page.get_by_label("text of row 2").fill("mended")
    page.keyboard.press("Tab")
    page.get_by_label("Remove row 3").click()
    expect(page.locator("examples-editor")).to_contain_text("2 examples")


def test_five_thousand_rows_are_few_in_the_page(visit, template):
    page = visit(template.url)
    rows = "\n".join(f"text {n},label {n % 7}" for n in range(5000))
    paste(page, "#input-examples", f"text,label\n{rows}")
    expect(page.locator("examples-editor")).to_contain_text("5,000 examples, 7 labels")
    assert page.locator("examples-table .gridrow").count() < 60
    page.locator("examples-table .rows").evaluate("each => each.scrollTo(0, each.scrollHeight)")
    last = page.get_by_label("text of row 5000")
    expect(last).to_have_value("text 4999")
    last.fill("edited")
    page.keyboard.press("Tab")
    expect(last).to_have_value("edited")
    last.press("End")
    last.press_sequentially(", half typed")
    scroller = page.locator("examples-table .rows")
    scroller.evaluate("each => each.scrollTo(0, 0)")
    expect(page.get_by_label("text of row 1", exact=True)).to_be_visible()
    scroller.evaluate("each => each.scrollTo(0, each.scrollHeight)")
    expect(last).to_have_value("edited, half typed")


def test_the_self_test_is_seen_by_layer_and_runs_again(visit, template):
    page = visit(f"{template.url}#/self-test", until="selftest-view .layer")
    expect(page.get_by_text("Gradients flow")).to_be_visible()
    assert page.locator(".cell-heat").count() > 50
    page.locator(".heat").evaluate("each => each.scrollIntoView({block: 'end'})")
    picture(page, "page-self-test")
    page.get_by_role("button", name="Run it again").click()
    expect(page.locator("selftest-view .verdict-row")).to_contain_text("level full")


def test_an_example_of_the_predictor_is_one_click(visit, template):
    page = visit(template.url)
    page.get_by_role("button", name="Label a ticket").click()
    expect(page.locator("#input-text")).to_have_value("Where is my parcel?")
    run(page)
    until_ended(page, "succeeded")
    expect(page.locator("answer-list .answer-label")).to_have_text("delivery")
