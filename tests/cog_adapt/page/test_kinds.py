"""Inputs and answers of each kind: rows, pictures, chats."""

import base64

import pytest
from playwright.sync_api import expect

from tests.cog_adapt.page.acts import drop, run, set_up, until_ended
from tests.cog_adapt.page.seen import expect_seen
from tests.cog_adapt.page.test_predicting import PIXEL

PICTURE = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"


@pytest.fixture(scope="module")
def server(start):
    with start("kinds.py:Predictor") as server:
        yield server


def asked(page):
    """The input that the page sends."""
    with page.expect_request(lambda request: request.method == "PUT") as sent:
        run(page)
    until_ended(page, "succeeded")
    return sent.value.post_data_json["input"]


def test_a_row_is_a_form_of_its_fields_and_its_answer_a_number(visit, server):
    page = visit(server.url)
    set_up(page, rows=[{"age": 60, "bmi": 20.5}], examples=[{"age": 1, "bmi": 2, "label": 3}])
    page.get_by_label("age of Rows 1").fill("61")
    assert asked(page)["rows"] == [{"age": 61, "bmi": 20.5}]
    expect(page.locator(".answer-number")).to_have_text("61.5")
    expect_seen(page.locator(".answer-number"))
    expect(page.locator(".was-label")).to_have_text("was 1 (+60.5)")
    expect(page.locator(".asked")).to_contain_text("bmi")


def test_pictures_are_labelled_by_click_and_shown_beside_their_answers(visit, server, tmp_path):
    file = tmp_path / "dot.png"
    file.write_bytes(PIXEL)
    page = visit(server.url)
    drop(page, "files-field .drop", file)
    expect(page.locator("files-field img")).to_have_js_property("naturalWidth", 1)
    examples = [{"input": PICTURE, "label": "boot"}, {"input": PICTURE, "label": "bag"}]
    set_up(page, examples=examples)
    drop(page, "examples-editor .drop", file)
    expect(page.locator("examples-grid .tile")).to_have_count(3)
    page.locator("label-balance").get_by_role("button", name="bag").click()
    page.get_by_role("button", name="Label Example 3 as bag").click()
    sent = asked(page)
    assert sent["images"] == [PICTURE]
    assert sent["examples"] == [*examples, {"input": PICTURE, "label": "bag"}]
    expect(page.locator(".asked img")).to_have_js_property("naturalWidth", 1)
    expect_seen(page.locator(".answer .score").first)


@pytest.mark.parametrize("width", [1280, 380])
def test_a_doubtful_label_of_a_picture_is_put_right_on_the_picture(visit, server, width):
    page = visit(server.url, viewport={"width": width, "height": 800})
    labels = ["boot", "bag", "boot"]
    examples = [{"input": PICTURE, "label": label} for label in labels]
    set_up(page, images=[PICTURE], examples=examples)
    asked(page)
    page.get_by_role("button", name="Show it").click()
    fix = page.locator(".tile.is-marked").get_by_role("button", name="Change row 2 to boot")
    expect_seen(fix)
    with page.expect_request(lambda request: request.method == "PUT") as sent:
        fix.click()
    assert sent.value.post_data_json["input"]["examples"][1]["label"] == "boot"
    until_ended(page, "succeeded")
    expect(fix).to_have_count(0)


def test_a_chat_is_messages(visit, server):
    page = visit(server.url)
    page.get_by_role("button", name="Add a message").click()
    page.get_by_label("Message 1", exact=True).fill("Hello?")
    page.get_by_label("Role of message 1").select_option("system")
    assert asked(page)["messages"] == [{"role": "system", "content": "Hello?"}]
