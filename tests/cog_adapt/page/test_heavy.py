"""Outputs of any size and shape: the page goes on, and a key is not dropped."""

import pytest
from playwright.sync_api import expect

from tests.cog_adapt.page.acts import run, until_ended
from tests.cog_adapt.page.predictors.heavy import OUTPUTS

WATCH = """window.tasks = [];
new PerformanceObserver(list => window.tasks.push(...list.getEntries().map(each => each.duration)))
  .observe({type: 'longtask'});"""
ELEMENTS = "document.querySelectorAll('output-value *').length"
LONGEST_MS = (
    2500  # of a task in a browser that shares two cores; without bounds it is 10 s and more
)
MOST_ELEMENTS = 8000


@pytest.fixture(scope="module")
def server(start):
    with start("heavy.py:Predictor") as server:
        yield server


@pytest.mark.parametrize("what", OUTPUTS)
def test_an_output_of_any_size_and_shape_does_not_stop_the_page(visit, server, what):
    page = visit(server.url)
    page.evaluate(WATCH)
    page.fill("#input-what", what)
    run(page)
    page.locator("#input-what").press_sequentially(" typed while it comes")
    until_ended(page, "succeeded")
    for summary in page.locator("result-panel summary").all():
        summary.click()
    expect(page.locator("#input-what")).to_have_value(f"{what} typed while it comes")
    assert page.evaluate(ELEMENTS) < MOST_ELEMENTS
    assert max(page.evaluate("window.tasks"), default=0) < LONGEST_MS


def test_a_name_of_an_adapter_that_is_a_path_leads_nowhere_else(visit, server):
    page = visit(server.url)
    page.fill("#input-what", "record")
    run(page)
    until_ended(page, "succeeded")
    calls: list[str] = []
    page.on("request", lambda request: calls.append(request.url))
    page.get_by_label("Name", exact=True).fill("mine")
    page.get_by_role("button", name="Keep this adapter").click()
    expect(page.locator("adapter-keep .problem")).to_be_visible()
    page.get_by_role("button", name="Download", exact=True).click()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("adapters-list")).to_be_visible()
    addresses = [each.removeprefix(server.url) for each in calls]
    assert {each for each in addresses if "shutdown" in each} == {
        "/adapters/..%2Fshutdown%3Fx%3D",
        "/adapters/..%2Fshutdown%3Fx%3D/download?format=safetensors",
    }
