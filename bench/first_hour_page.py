"""Asks a server's page for a personalised answer, as a user does, in a real Chromium.

Only the button with the request's name, the Run button and the answer's words are relied on.
"""

import re
import shutil
import time

from playwright.sync_api import Page, sync_playwright

NO_BROWSER = "no Chromium here"
_PATIENCE_MS = 60_000
_MOST_SECONDS = 600


def answered_on_page(address: str, request: str, expected: str) -> str:
    """Choose an example request, run it, and wait until its answer is seen; return the answer.

    Raises:
        SystemExit: the answer is not seen within ten minutes.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        return NO_BROWSER
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(_PATIENCE_MS)
        page.goto(f"{address}/playground")
        page.get_by_role("button", name=request).click()
        before = _times_seen(page, expected)
        page.get_by_role("button", name=re.compile("^Run\\b")).locator("visible=true").first.click()
        _wait_until_seen(page, expected, before)
        browser.close()
    return expected


def _wait_until_seen(page: Page, words: str, before: int) -> None:
    ends = time.monotonic() + _MOST_SECONDS
    while _times_seen(page, words) <= before:
        if time.monotonic() > ends:
            raise SystemExit(f"the page does not show {words!r}: {_text(page)[-2000:]}")
        time.sleep(0.2)


def _times_seen(page: Page, words: str) -> int:
    return _text(page).count(words)


def _text(page: Page) -> str:
    """Return the text that a reader sees; what stands in inputs does not count."""
    return page.locator("body").inner_text()
