"""Nothing that a predictor, a log, an error or a file name says is run by the page."""

import pytest
from playwright.sync_api import expect

from tests.cog_adapt.page.acts import run, until_ended
from tests.cog_adapt.page.predictors.hostile import LINK, MARKUP


@pytest.fixture(scope="module")
def server(start):
    with start("hostile.py:Predictor") as server:
        yield server


def assert_nothing_ran(page):
    page.evaluate("() => new Promise(requestAnimationFrame)")  # what was to run, has run
    assert "pwned" not in page.title()
    assert page.locator("script:not([src])").count() == 0
    assert page.locator("img[src='x'], [onerror], [onload]").count() == 0
    addresses = page.eval_on_selector_all("a[href]", "all => all.map(each => each.protocol)")
    assert set(addresses) <= {"http:", "https:", "data:", "blob:"}


@pytest.mark.short_page
def test_markup_in_outputs_labels_logs_and_reports_is_text(visit, server):
    page = visit(server.url)
    calls: list[str] = []
    page.on("request", lambda request: calls.append(request.url))
    expect(page.locator(".about").first).to_have_text(MARKUP)
    run(page)
    until_ended(page, "succeeded")
    for summary in page.locator("result-panel summary").all():
        summary.click()
    expect(page.locator("log-view pre")).to_contain_text(MARKUP)
    expect(page.locator("answer-list").first).to_contain_text(MARKUP)
    expect(page.locator("output-value dt").first).to_have_text(MARKUP)
    expect(page.get_by_text(LINK, exact=True).first).to_be_visible()
    assert_nothing_ran(page)
    assert not [each for each in calls if "evil.example" in each]
    page.get_by_role("link", name="History").click()
    page.locator(".entry a").first.click()
    expect(page.locator("run-detail dt").first).to_have_text(MARKUP)
    assert_nothing_ran(page)


def test_markup_in_errors_and_rows_is_text(visit, server):
    page = visit(server.url)
    page.fill("#input-text", "fail")
    run(page)
    until_ended(page, "failed")
    expect(page.get_by_role("alert")).to_contain_text(MARKUP)
    assert_nothing_ran(page)


def test_markup_in_examples_and_addresses_is_text(visit, server):
    page = visit(f"{server.url}#/predictions/{MARKUP}", until="run-detail .problem")
    assert_nothing_ran(page)
