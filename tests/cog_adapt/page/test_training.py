"""The Train view, and trainings in the history."""

import re

import pytest
from playwright.sync_api import expect

from tests.cog_adapt.page.acts import run, until_ended


@pytest.fixture(scope="module")
def server(start):
    with start("actions.py:Predictor", train="train.py:train") as server:
        yield server


def opened(visit, server, view="train"):
    return visit(f"{server.url}#/{view}", until=f"{'#train form' if view == 'train' else '.entry'}")


def test_a_training_is_typed_and_its_weights_are_a_file(visit, server):
    page = opened(visit, server)
    page.get_by_label("Name").fill("mine")
    page.get_by_label("Steps", exact=False).locator("visible=true").last.fill("3")
    with page.expect_request(re.compile("/trainings/page-")):
        run(page)
    until_ended(page, "succeeded")
    page.locator("#train details.logs summary").click()
    expect(page.locator("#train log-view pre")).to_contain_text("step 2")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download weights").click()
    assert download.value.path().read_bytes() == b"mine"


def test_what_is_wrong_stands_at_its_input(visit, server):
    page = opened(visit, server)
    run(page)
    until_ended(page, "refused")
    name = page.get_by_label("Name")
    expect(name).to_be_focused()
    expect(name).to_have_attribute("aria-invalid", "true")


def test_a_training_is_cancelled_by_escape(visit, server):
    page = opened(visit, server)
    page.get_by_label("Name").fill("long")
    page.evaluate("document.querySelector('#train run-view').set({name: 'long', seconds: 600})")
    with server.beginning():
        run(page)
    page.keyboard.press("Escape")
    until_ended(page, "canceled")


def test_both_forms_keep_what_is_typed_and_each_label_is_of_its_own(visit, server):
    page = opened(visit, server)
    page.get_by_label("Seconds").locator("visible=true").fill("0.25")
    page.get_by_role("link", name="Predict", exact=True).click()
    page.fill("#input-seconds", "0.5")  # not by its label: the training's form may still be there
    page.get_by_role("link", name="Train", exact=True).click()
    expect(page.locator("#train-input-seconds")).to_be_visible()
    expect(page.get_by_label("Seconds").locator("visible=true")).to_have_value("0.25")
    page.get_by_text("Seconds").locator("visible=true").click()  # a label leads to its input
    expect(page.get_by_label("Seconds").locator("visible=true")).to_be_focused()
    twice = (
        "Object.entries(Object.groupBy([...document.querySelectorAll('[id]')], each => each.id))"
    )
    assert page.evaluate(f"{twice}.filter(([, all]) => all.length > 1).map(([id]) => id)") == []


def test_trainings_are_listed_live_filtered_run_again_and_found_by_their_link(visit, server):
    page = opened(visit, server)
    page.evaluate("document.querySelector('#train run-view').set({name: 'seen', seconds: 600})")
    with server.beginning():
        run(page)
    page.get_by_role("link", name="History").click()
    page.get_by_role("link", name="Trainings").click()
    row = page.locator(".entry", has_text="seen").first
    expect(row).to_contain_text("processing")
    row.get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"#/trainings/page-"))
    expect(page.locator("run-detail [data-phase=running]")).to_be_visible()
    expect(page.locator("run-detail log-view pre")).to_contain_text("step 0")
    link = page.url
    page.locator("run-detail").get_by_role("button", name="Cancel").click()
    expect(page.locator("run-detail [data-phase=canceled]")).to_be_visible()
    page.get_by_role("link", name="All trainings").click()
    page.select_option("#status", "canceled")
    expect(page.locator(".entry", has_text="seen").first).to_contain_text("canceled")
    page.select_option("#status", "failed")
    expect(page.locator(".entry", has_text="seen")).to_have_count(0)
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("run-detail h2")).to_have_text(link.rpartition("/")[2])
    page.get_by_role("button", name="Run again").click()
    expect(page.locator("#train").get_by_label("Name")).to_have_value("seen")


def test_a_list_is_live(visit, server):
    page = visit(f"{server.url}#/history/trainings", until="history-view")
    name = server.new_id()
    body = {"id": name, "input": {"name": "from elsewhere", "seconds": 600}}
    with server.beginning():
        server.post("/trainings", body, headers={"Prefer": "respond-async"})
    row = page.locator(".entry", has_text="from elsewhere").first
    expect(row).to_contain_text("processing")
    server.cancel(name, "trainings")
    expect(row).to_contain_text("canceled")
