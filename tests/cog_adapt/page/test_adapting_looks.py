"""An adaptation with all that belongs to it in sight: for a screen reader, on a narrow screen."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.cog_adapt.page.acts import OVERFLOW, axe, paste, run, set_up, until_ended

pytest.importorskip("task", reason="the shipped task is not here")

TICKETS = (Path(__file__).parents[3] / "examples" / "tickets.csv").read_text()


def open_all(page):
    """Open what is folded away, twice: some of it is inside of other."""
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")


def adapted(page):
    """Let it learn, with a row that has a problem, and look at all that is said of it."""
    paste(page, "#input-examples", TICKETS)
    set_up(page, texts=["Where is my parcel?", "I cannot log in."], method="lora", steps=3)
    run(page)
    expect(page.locator("adaptation-panel progress")).to_be_visible()
    while_it_learns = axe(page), page.evaluate(OVERFLOW)
    until_ended(page, "succeeded")
    page.get_by_role("button", name="Add a row").click()
    expect(page.locator(".marks .problem")).to_be_visible()
    open_all(page)
    expect(page.locator("adapter-keep")).to_be_visible()
    return while_it_learns


def compared(page):
    """Compare its adapter with the base."""
    page.locator("adapter-keep").get_by_role("button", name="Compare").click()
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.locator("adapter-compare tbody tr")).to_have_count(2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 1280])
def test_axe_finds_nothing_and_nothing_is_cut_off(visit, template, scheme, width):
    page = visit(template.url, color_scheme=scheme, viewport={"width": width, "height": 900})
    found = {"learning": adapted(page), "adapted": (axe(page), page.evaluate(OVERFLOW))}
    compared(page)
    found["compared"] = (axe(page), page.evaluate(OVERFLOW))
    for view, part in {"self-test": ".verdict", "server": ".figure"}.items():
        page.evaluate("view => (location.hash = `#/${view}`)", view)
        page.wait_for_selector(part)
        open_all(page)
        found[view] = (axe(page), page.evaluate(OVERFLOW))
    assert found == dict.fromkeys(found, ([], 0))
