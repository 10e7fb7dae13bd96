"""The form in the hands of somebody who changes his mind."""

import json

import pytest
from playwright.sync_api import expect

from tests.cog_adapt.contract.serving import stop
from tests.cog_adapt.page.acts import run, until_ended
from tests.cog_adapt.page.restart import take_away

SECRET = "not to be shown"


@pytest.fixture(scope="module")
def server(start):
    with start("inputs.py:Predictor") as server:
        yield server


@pytest.fixture
def page(visit, server):
    page = visit(server.url)
    page.fill("#input-s", "x")
    page.fill("#input-n", "1")
    return page


def settings(page):
    page.get_by_text("settings, with defaults").click()


def as_json(page):
    page.get_by_role("button", name="JSON", exact=True).first.click()
    return json.loads(page.locator("#request-json").input_value())["input"]


def output(page):
    run(page)
    until_ended(page, "succeeded")
    page.locator("output-value").get_by_role("button", name="JSON").click()
    return json.loads(page.locator("output-value pre").inner_text())


def test_a_text_that_is_emptied_is_sent_empty(page):
    page.fill("#input-short", "")
    assert as_json(page)["short"] == ""
    run(page)
    until_ended(page, "refused")  # of two letters at least: its default is not sent instead
    page.get_by_role("button", name="Form", exact=True).click()
    expect(page.locator("#input-short-problem")).to_be_visible()


def test_a_text_that_may_be_left_out_is_left_out_where_it_is_emptied(page):
    page.fill("#input-maybe", "typed")
    page.fill("#input-maybe", "")
    assert "maybe" not in as_json(page)
    assert output(page)["maybe"] == ["NoneType", None]


def test_start_over_takes_back_what_is_chosen_and_what_is_half_typed(page):
    settings(page)
    page.select_option("#input-choice", label="green")
    page.locator("#input-i").press_sequentially("e")
    page.fill("#input-mapping", "{")
    expect(page.locator("#input-mapping-problem")).to_be_visible()
    page.get_by_role("button", name="Start over").click()
    settings(page)
    expect(page.locator("#input-choice option:checked")).to_have_text("red")
    expect(page.locator("#input-i")).to_have_value("1")
    expect(page.locator("#input-mapping")).to_have_value("{}")
    expect(page.locator("input-form .problem")).to_have_count(0)


def test_settings_stay_open_while_a_mistake_in_them_is_mended(page):
    settings(page)
    number = page.locator("#input-f")
    number.fill("")
    number.press_sequentially("1e")
    expect(page.locator("#input-f-problem")).to_be_visible()
    number.press_sequentially("-1")
    expect(page.locator("#input-f-problem")).to_have_count(0)
    expect(number).to_be_focused()
    expect(number).to_be_visible()
    assert output(page)["f"] == ["float", 0.1]


def test_what_is_no_json_is_not_run_and_does_not_block_the_form(page):
    as_json(page)
    page.fill("#request-json", '{"input": {"s": ')
    run(page)
    expect(page.locator("#request-json")).to_be_focused()
    expect(page.get_by_text("Nothing has run yet")).to_be_visible()
    page.get_by_role("button", name="Form", exact=True).click()
    page.fill("#input-mapping", "{")
    as_json(page)
    assert output(page)["s"] == ["str", "x"]


def test_a_number_that_is_none_is_not_run_and_is_in_sight(page):
    settings(page)
    page.locator("#input-i").press_sequentially("e")
    page.get_by_text("settings, with defaults").click()
    run(page)
    expect(page.locator("#input-i")).to_be_focused()
    expect(page.get_by_text("Nothing has run yet")).to_be_visible()


def test_a_secret_is_in_no_record_and_its_stars_are_not_sent(page):
    page.fill("#input-secret", SECRET)
    assert SECRET not in json.dumps(as_json(page))
    assert output(page)["secret"] == ["Secret", SECRET]
    page.get_by_role("link", name="History").click()
    page.locator(".entry a").first.click()
    expect(page.locator("run-detail details pre").first).to_contain_text('"secret": "*****')
    page.get_by_role("button", name="Run again").click()
    expect(page.locator("#input-secret")).to_have_value("")
    assert output(page)["secret"] == ["NoneType", None]


def test_a_server_that_comes_back_finds_all_that_was_typed(visit, start):
    with start("inputs.py:Predictor", train="train.py:train") as server:
        page = visit(server.url)
        page.fill("#input-s", "typed")
        page.fill("#input-mapping", '{"half": ')
        page.get_by_role("button", name="Add to Tags").click()
        page.get_by_role("textbox", name="Tags 2").fill("second")
        page.get_by_role("link", name="Train", exact=True).click()
        page.locator("#train").get_by_role("button", name="JSON", exact=True).click()
        page.fill("#train-request-json", '{"input": {"na')
        bring_back = take_away(server)
        page.get_by_role("link", name="History").click()
        expect(page.locator("server-banner")).to_contain_text("does not answer")
        bring_back()
        expect(page.locator("server-banner")).to_contain_text("is back")
        page.get_by_role("link", name="Train", exact=True).click()
        expect(page.locator("#train-request-json")).to_have_value('{"input": {"na')
        page.get_by_role("link", name="Predict", exact=True).click()
        expect(page.locator("#input-s")).to_have_value("typed")
        expect(page.locator("#input-mapping")).to_have_value('{"half": ')
        expect(page.get_by_role("textbox", name="Tags 2")).to_have_value("second")
        stop(server.process)
