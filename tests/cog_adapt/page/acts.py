"""What a reader of the page does, in one word each."""

import base64
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

_ENDED = re.compile("succeeded|failed|canceled|refused")
PATIENCE_MS = 240_000
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
_AXE = Path(__file__).parents[3] / "page" / "node_modules" / "axe-core" / "axe.min.js"
_VIOLATIONS = """axe.run().then(found => found.violations
  .map(each => [each.id, each.nodes.map(node => node.html).slice(0, 3)]))"""


def run(page: Page) -> None:
    """Press Run."""
    page.get_by_role("button", name="Run", exact=True).locator("visible=true").click()


def until_ended(page: Page, phase: str) -> None:
    """Wait for the end of the run that is seen, and see to it that it is this one."""
    state = page.locator("[data-phase]").locator("visible=true")
    expect(state).to_have_attribute("data-phase", _ENDED, timeout=PATIENCE_MS)
    expect(state).to_have_attribute("data-phase", phase)


def axe(page: Page) -> list[list[object]]:
    """All violations that axe-core finds."""
    if not _AXE.exists():
        pytest.skip("no axe-core: `make page` installs it")
    if not page.evaluate("'axe' in window"):
        page.evaluate(_AXE.read_text())
    found: list[list[object]] = page.evaluate(_VIOLATIONS)
    return found


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


def file_of(folder: Path, name: str, uri: str) -> Path:
    """A data URI as a file on the user's disk."""
    head, _, content = uri.partition(",")
    path = folder / f"{name}.{head.partition('/')[2].partition(';')[0]}"
    path.write_bytes(base64.b64decode(content))
    return path


def paste(page: Page, selector: str, text: str) -> None:
    """Paste a text into an input."""
    page.evaluate(
        """([selector, text]) => {
          const data = new DataTransfer();
          data.setData('text', text);
          const init = {clipboardData: data, bubbles: true, cancelable: true};
          document.querySelector(selector).dispatchEvent(new ClipboardEvent('paste', init));
        }""",
        [selector, text],
    )


def set_up(page: Page, **values: object) -> None:
    """Put values into the form."""
    page.evaluate("values => document.querySelector('run-view').set(values)", values)
