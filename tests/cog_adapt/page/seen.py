"""Whether a reader sees an element: inside the window, not covered, with all of its text."""

from playwright.sync_api import Locator
from playwright.sync_api import TimeoutError as Late

# What covers or clips the element is found at its points in its place.
_UNSEEN = """element => {
  const box = element.getBoundingClientRect();
  const edges = [box.left, box.top, box.right, box.bottom].map(Math.round).join(', ');
  if (box.width === 0 || box.height === 0) return 'it has no size';
  if (box.left < 0 || box.top < 0 || box.right > innerWidth || box.bottom > innerHeight)
    return `its edges are ${edges} in a window of ${innerWidth} x ${innerHeight}`;
  const points = [[0.5, 0.5], [0.1, 0.2], [0.9, 0.2], [0.1, 0.8], [0.9, 0.8]];
  for (const line of element.getClientRects())  // a text that is wrapped has one for each line
    for (const [across, down] of points) {
      const [x, y] = [line.left + across * line.width, line.top + down * line.height];
      const found = document.elementFromPoint(x, y);
      const isItsOwn = found && (element.contains(found) || found.contains(element));
      if (!isItsOwn) return `${found?.outerHTML.slice(0, 120)} covers it`;
    }
  const isCut = ['hidden', 'clip'].includes(getComputedStyle(element).overflowX);
  return isCut && element.scrollWidth > element.clientWidth + 1 ? 'its text is cut off' : '';
}"""


def expect_seen(element: Locator) -> None:
    """Wait until a reader sees the element, wherever the page was scrolled by itself."""
    page = element.page
    handle = element.element_handle()
    try:
        page.wait_for_function(f"element => ({_UNSEEN})(element) === ''", arg=handle)
    except Late:
        why = element.evaluate(_UNSEEN)
        raise AssertionError(f"a reader does not see {element}: {why}") from None
