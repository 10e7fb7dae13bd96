"""What a reader of the page does, in one word each."""

import re

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
