"""The page at /docs in a browser: its security policy lets it work."""

import pytest

pytestmark = pytest.mark.short_page


def test_it_shows_the_api_and_tries_it(start, visit):
    with start("rows.py:Predictor") as server:
        page = visit(f"{server.url}/docs", until=".opblock")
        page.locator("[id*=healthz]").first.click()
        page.get_by_role("button", name="Try it out").first.click()
        page.get_by_role("button", name="Execute").first.click()
        page.locator(".live-responses-table", has_text="alive").wait_for()
