"""Asserts what a reader sees: in the viewport, covered by nothing, cut off by no edge."""

from playwright.sync_api import Locator, expect

_HIDDEN_BY = """element => {
  const box = element.getBoundingClientRect();
  const name = of => `<${of.localName} class="${of.className}">`;
  const isIn = (left, top, right, bottom) =>
    box.left > left - 1 && box.top > top - 1 && box.right < right + 1 && box.bottom < bottom + 1;
  if (box.width < 1 || box.height < 1) return 'it has no size';
  if (!isIn(0, 0, innerWidth, innerHeight))
    return `it is outside the viewport: ${JSON.stringify(box)} of ${innerWidth} x ${innerHeight}`;
  for (let each = element; each; each = each.parentElement) {
    if (getComputedStyle(each).overflow === 'visible') continue;
    const edge = each.getBoundingClientRect();
    if (each !== element && !isIn(edge.left, edge.top, edge.right, edge.bottom))
      return `it is cut off by ${name(each)}`;
    if (each === element && (each.scrollWidth > each.clientWidth + 1))
      return 'its text is cut off';
  }
  for (const {left, top, width, height} of element.getClientRects()) {
    const found = document.elementFromPoint(left + width / 2, top + height / 2);
    if (found && !element.contains(found) && !found.contains(element))
      return `it is covered by ${name(found)}`;
  }
  return '';
}"""


def assert_visible(locator: Locator) -> None:
    """Wait until an element is shown, then assert that all of it is seen without scrolling."""
    expect(locator).to_be_visible()
    hidden_by = locator.evaluate(_HIDDEN_BY)
    assert hidden_by == "", f"{locator}: {hidden_by}"
