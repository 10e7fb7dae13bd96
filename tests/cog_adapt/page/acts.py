"""What a reader of the page does, in one word each."""

import re
from pathlib import Path

from playwright.sync_api import Page, expect

_ENDED = re.compile("succeeded|failed|canceled|refused")
PATIENCE_MS = 120_000


def run(page: Page) -> None:
    """Press Run."""
    page.get_by_role("button", name="Run", exact=True).locator("visible=true").click()


def until_ended(page: Page, phase: str) -> None:
    """Wait for the end of the run that is seen, and see to it that it is this one."""
    state = page.locator("[data-phase]").locator("visible=true")
    expect(state).to_have_attribute("data-phase", _ENDED, timeout=PATIENCE_MS)
    expect(state).to_have_attribute("data-phase", phase)


def drop(page: Page, selector: str, *files: Path) -> None:
    """Drop files of the disk onto an element, as a reader's mouse does."""
    target = page.locator(selector).locator("visible=true").first
    target.scroll_into_view_if_needed()
    box = target.bounding_box()
    assert box is not None
    place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + min(box["height"] / 2, 20)}
    dragged = {"items": [], "files": [str(each) for each in files], "dragOperationsMask": 1}
    browser = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        browser.send("Input.dispatchDragEvent", {"type": kind, "data": dragged, **place})
    browser.detach()
