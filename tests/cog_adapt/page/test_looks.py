"""The page in the dark, on a narrow screen, by keyboard alone, for a screen reader."""

import pytest
from playwright.sync_api import expect

from tests.cog_adapt.page.acts import OVERFLOW, axe, until_ended

VIEWS = {
    "predict": "#predict .panel",
    "train": "#train .panel",
    "history": "history-view .entry",
    "history/trainings": "history-view .entry",
    "predictions/shown": "run-detail output-value",
    "trainings/shown": "run-detail output-value",
    "history/adapters": "adapters-list input",
    "self-test": "selftest-view .panel",
    "server": "server-view .figure",
}


@pytest.fixture(scope="module")
def server(start):
    with start("inputs.py:Predictor", train="train.py:train") as server:
        for kind, inputs in (("predictions", {"s": "shown", "n": 1}), ("trainings", {"name": "x"})):
            answer = server.put(f"/{kind}/shown", {"input": inputs}).json()
            assert answer["status"] == "succeeded", answer
        yield server


def brightness(page):
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, color[color.index("(") + 1 : -1].split(",")[:3])) / 3


def show(page, view):
    page.evaluate("view => (location.hash = `#/${view}`)", view)
    page.locator(f"{VIEWS[view]} >> visible=true").first.wait_for()


def test_it_is_dark_where_the_system_is_and_as_the_reader_chooses(visit, server):
    page = visit(server.url, color_scheme="dark")
    assert brightness(page) < 60
    page.get_by_role("button", name="Colours").click()  # dark
    page.get_by_role("button", name="Colours").click()  # light
    assert brightness(page) > 200
    page.reload()
    page.wait_for_selector("run-view form")
    assert brightness(page) > 200


def test_nothing_is_cut_off_at_380_pixels(visit, server):
    page = visit(server.url, viewport={"width": 380, "height": 700})
    wide = {}
    for view in VIEWS:
        show(page, view)
        wide[view] = page.evaluate(OVERFLOW)
    assert wide == dict.fromkeys(VIEWS, 0)


def test_a_prediction_takes_no_mouse(visit, server):
    page = visit(server.url)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # skip to the content
    while page.evaluate("document.activeElement.id") != "input-s":
        page.keyboard.press("Tab")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) != "none"
    page.keyboard.type("by keyboard")
    page.keyboard.press("Tab")
    page.keyboard.type("3")
    page.keyboard.press("Control+Enter")
    until_ended(page, "succeeded")
    expect(page.locator("output-value")).to_contain_text("by keyboard")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 1280])
def test_axe_finds_nothing_in_any_view(visit, server, width, scheme):
    page = visit(server.url, color_scheme=scheme, viewport={"width": width, "height": 900})
    page.fill("#input-s", "seen")
    page.keyboard.press("Control+Enter")  # without its number: a problem is in the page too
    until_ended(page, "refused")
    page.get_by_role("button", name="JSON", exact=True).click()
    page.get_by_role("button", name="Python").click()
    found = {}
    for view in VIEWS:
        show(page, view)
        for summary in page.locator("summary >> visible=true").all():
            summary.click()
        found[view] = axe(page)
    assert found == dict.fromkeys(VIEWS, [])


def test_no_motion_where_none_is_wanted(visit, server):
    page = visit(server.url, reduced_motion="reduce")
    duration = "getComputedStyle(document.querySelector('button')).transitionDuration"
    assert page.evaluate(duration) == "0s"
