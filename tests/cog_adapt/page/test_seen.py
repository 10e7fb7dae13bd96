"""What a reader sees of the main screen: in the window, not covered, not cut off."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.cog_adapt.page.acts import axe, paste, run, set_up, until_ended
from tests.cog_adapt.page.seen import expect_seen

pytest.importorskip("task", reason="the shipped task is not here")

TICKETS = (Path(__file__).parents[3] / "examples" / "tickets.csv").read_text()
TEXTS = ["My parcel has not come.", "I cannot log in any more."]
WINDOWS = [{"width": 1280, "height": 800}, {"width": 380, "height": 800}]
WIDTHS = pytest.mark.parametrize("window", WINDOWS, ids=["wide", "narrow"])
DOUBTED = "text,label\n" + "".join(
    f"parcel {n},{'refund' if n == 30 else 'delivery'}\n" for n in range(40)
)


@pytest.fixture(scope="module")
def doubted(start):
    """A predictor whose report doubts each label but `delivery`, in the words of the runner."""
    with start("doubting.py:Predictor") as server:
        yield server


@pytest.mark.short_page
@WIDTHS
def test_the_scores_of_a_plain_prediction_are_seen(visit, template, window):
    page = visit(template.url, viewport=window)
    page.get_by_role("button", name="Label a ticket").click()
    run(page)
    until_ended(page, "succeeded")
    expect_seen(page.locator(".answer-label"))
    scores = page.locator("answer-list .score")
    expect(scores).to_have_count(6)
    for score in scores.all():
        expect_seen(score)
    widths = [bar.bounding_box()["width"] for bar in page.locator(".bar-now").all()]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 10


def test_one_screen_leads_from_the_question_to_the_answer(visit, template):
    page = visit(template.url, viewport={"width": 1280, "height": 800})
    for words in ("What do you want to ask?", "Teach it", "Answer"):
        expect_seen(page.get_by_role("heading", name=words))
    expect_seen(page.locator("#input-method"))
    expect_seen(page.get_by_role("button", name="Run", exact=True))
    settings = page.locator("#predict details.settings")
    expect(settings.locator("input >> visible=true")).to_have_count(0)
    settings.locator("summary").click()
    page.locator("#input-steps").scroll_into_view_if_needed()
    expect_seen(page.locator("#input-steps"))
    assert "^" not in page.locator("main").inner_text()  # as the patterns of inputs begin


@WIDTHS
def test_the_difference_that_teaching_made_is_seen(visit, template, window):
    page = visit(template.url, viewport=window)
    paste(page, "#input-examples", TICKETS)
    set_up(page, texts=TEXTS, method="head")
    run(page)
    until_ended(page, "succeeded")
    expect_seen(page.locator(".glance"))
    expect_seen(page.locator(".answer").first)
    assert "nothing" not in page.locator(".result").inner_text()


def test_nothing_covers_an_input_that_has_the_focus(visit, template):
    page = visit(template.url, viewport={"width": 1280, "height": 600})
    paste(page, "#input-examples", TICKETS)
    for summary in page.locator("#predict summary >> visible=true").all():
        summary.click()
    kinds = ":is(select, textarea, input.number, button):not(.rows *)"
    inputs = page.locator(f"#predict form {kinds} >> visible=true")
    assert inputs.count() > 10
    for element in inputs.all():
        element.focus()
        expect_seen(element)
    expect_seen(page.locator("#predict .actions .primary"))


@WIDTHS
def test_the_stages_of_auto_and_its_first_answer_are_seen(visit, template, window):
    page = visit(template.url, viewport=window)
    paste(page, "#input-examples", TICKETS)
    set_up(page, texts=TEXTS, steps=2000, seed=5)
    run(page)
    page.wait_for_selector(".early")
    expect_seen(page.locator(".early"))
    expect_seen(page.locator(".answer-label").first)
    stages = page.locator(".stage")
    expect(stages).to_have_count(3)
    expect(stages.nth(0)).to_have_class("stage is-done")
    expect(stages.nth(1)).to_have_class("stage is-active")
    if window["width"] > 1000:
        expect_seen(stages.nth(1))
    page.keyboard.press("Escape")
    until_ended(page, "canceled")


def test_an_error_stands_at_its_input_once_and_in_words(visit, template):
    page = visit(template.url)
    set_up(page, text="Where is it?", adapter="nowhere")
    run(page)
    until_ended(page, "failed")
    expect_seen(page.locator("#input-adapter-problem"))
    expect(page.locator("#input-adapter")).to_be_focused()
    expect(page.get_by_text("is not known here").locator("visible=true")).to_have_count(1)
    assert "InputError" not in page.locator("#predict").inner_text()
    page.get_by_role("button", name="JSON", exact=True).first.click()
    expect_seen(page.get_by_role("alert").get_by_text("is not known here"))


@WIDTHS
def test_a_failure_stands_at_the_input_that_it_asks_for(visit, template, window):
    page = visit(template.url, viewport=window)
    set_up(page, text="Where is it?")
    run(page)
    until_ended(page, "failed")
    said = page.locator("#input-labels-problem")
    expect_seen(said)
    expect(said).to_contain_text("Set labels, send examples, or name an adapter.")
    expect(page.get_by_text("at least 2 different names").locator("visible=true")).to_have_count(1)


def test_a_method_is_a_choice_in_words(visit, template):
    page = visit(template.url)
    page.select_option("#input-method", label="head: the last layer alone")
    page.get_by_role("button", name="JSON", exact=True).first.click()
    assert '"method": "head"' in page.locator("#request-json").input_value()
    page.get_by_role("button", name="Form", exact=True).click()
    page.select_option("#input-method", label="another…")
    page.get_by_label("Method, another").fill("match:*")
    page.get_by_role("button", name="JSON", exact=True).first.click()
    assert '"method": "match:*"' in page.locator("#request-json").input_value()


def put_right_where_it_stands(page, row, wrong, right):
    """Go from the answer to the row that it doubts, and click there; return the new examples."""
    expect_seen(page.locator("result-panel .suspect"))
    page.get_by_role("button", name="Show it").click()
    name = f"Change row {row} to {right} and teach again"
    fix = page.locator("examples-table").get_by_role("button", name=name)
    expect(fix).to_be_focused()
    expect_seen(fix)
    expect_seen(page.locator(".cell.wrong", has_text=str(row)))
    assert page.get_by_label(f"label of row {row}", exact=True).input_value() == wrong
    assert axe(page) == []
    with page.expect_request(lambda request: request.method == "PUT") as asked:
        fix.click()
    until_ended(page, "succeeded")
    expect(page.locator(".suspect")).to_have_count(0)
    return asked.value.post_data_json["input"]["examples"]


@WIDTHS
def test_a_misspelled_label_is_marked_in_its_row_where_a_click_teaches_again(
    visit, template, window
):
    page = visit(template.url, viewport=window)
    paste(page, "#input-examples", TICKETS.replace(",refund", ",refnd", 1))
    set_up(page, texts=TEXTS, method="head")
    run(page)
    until_ended(page, "succeeded")
    row = next(n for n, line in enumerate(TICKETS.splitlines()) if line.endswith(",refund"))
    rows = put_right_where_it_stands(page, row, "refnd", "refund")
    assert rows[row - 1]["label"] == "refund"


@WIDTHS
def test_a_label_that_the_report_doubts_is_marked_in_its_row_where_a_click_teaches_again(
    visit, doubted, window
):
    page = visit(doubted.url, viewport=window)
    paste(page, "#input-examples", DOUBTED)
    run(page)
    until_ended(page, "succeeded")
    rows = put_right_where_it_stands(page, 31, "refund", "delivery")
    assert rows[30] == {"text": "parcel 30", "label": "delivery"}


def test_each_suspicious_label_is_told_below_the_table_and_all_are_put_right_at_once(
    visit, doubted
):
    page = visit(doubted.url)
    paste(page, "#input-examples", DOUBTED + "parcel 40,refund\n")
    run(page)
    until_ended(page, "succeeded")
    told = page.locator("row-marks .suspect")
    expect(told).to_have_count(2)
    for each in told.all():
        each.scroll_into_view_if_needed()
        expect_seen(each)
    with page.expect_request(lambda request: request.method == "PUT") as asked:
        page.get_by_role("button", name="Change all 2 and teach again").click()
    labels = {each["label"] for each in asked.value.post_data_json["input"]["examples"]}
    assert labels == {"delivery"}
    until_ended(page, "succeeded")
    expect(told).to_have_count(0)


@WIDTHS
def test_columns_of_a_foreign_file_are_mapped_and_renamed(visit, template, window):
    page = visit(template.url, viewport=window)
    paste(
        page, "#input-examples", "id,message,topic\n1,where is my parcel,a\n2,I cannot log in,a\n"
    )
    mapping = page.get_by_role("group", name="Columns", exact=True)
    mapping.scroll_into_view_if_needed()
    for name in ("text", "label"):
        expect_seen(mapping.get_by_label(name))
    expect(mapping.get_by_label("text")).to_have_value("message")
    expect(mapping.get_by_label("label")).to_have_value("topic")
    page.get_by_role("button", name="Use these columns").click()
    expect(page.get_by_label("text of row 1")).to_have_value("where is my parcel")
    expect(page.get_by_label("label of row 2")).to_have_value("a")
    page.get_by_label("Name of the column label").fill("target")
    page.keyboard.press("Tab")
    renamed = page.get_by_label("target of row 2")
    expect(renamed).to_have_value("a")
    renamed.scroll_into_view_if_needed()
    expect_seen(renamed)


@WIDTHS
def test_rows_are_labelled_by_digits(visit, template, window):
    page = visit(template.url, viewport=window)
    paste(page, "#input-examples", "text,label\none,a\ntwo,a\nthree,b\nfour,\nfive,\n")
    page.get_by_role("button", name="Label by keyboard").click()
    expect(page.locator(".labeller")).to_contain_text("four")
    expect(page.locator(".labeller")).to_be_focused()
    for part in (".labelled", "button"):
        expect_seen(page.locator(f".labeller {part}").first)
    page.keyboard.press("2")
    page.keyboard.press("1")
    page.keyboard.press("Escape")
    expect(page.get_by_label("label of row 4")).to_have_value("b")
    expect(page.get_by_label("label of row 5")).to_have_value("a")
    expect(page.locator("label-balance li").first).to_contain_text("3")


@WIDTHS
def test_rows_are_typed_and_the_examples_of_each_label_are_counted(visit, template, window):
    page = visit(template.url, viewport=window, reduced_motion="reduce")  # bars grow at once
    rows = [("one", "refund"), ("two", "delivery"), ("three", "refund")]
    for place, (text, label) in enumerate(rows, start=1):
        page.get_by_role("button", name="Add a row").click()
        page.get_by_label(f"text of row {place}").fill(text)
        page.get_by_label(f"label of row {place}").fill(label)
        page.keyboard.press("Tab")
    expect(page.locator("examples-editor")).to_contain_text("3 examples, 2 labels")
    typed = page.get_by_label("label of row 3")
    typed.scroll_into_view_if_needed()
    expect_seen(typed)
    assert typed.evaluate("each => each.scrollWidth <= each.clientWidth")  # none of it is cut off
    balance = page.locator("label-balance li")
    expect(balance).to_have_text([re.compile(r"refund\s*2"), re.compile(r"delivery\s*1")])
    balance.last.scroll_into_view_if_needed()
    expect_seen(balance.last)
    bars = [each.bounding_box()["width"] for each in balance.locator(".bar-now").all()]
    assert bars[0] == pytest.approx(2 * bars[1], rel=0.1)
