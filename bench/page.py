"""Measures the playground's page in Chromium: weight, first paint, long tasks, axe, motion.

Keys are typed while a long curve grows and a long table is shown; each key that is missing at the
end counts as dropped (see `page_motion.py`). Chromium renders in software here.
"""

import contextlib
import gzip
import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import httpx2
from playwright.sync_api import BrowserContext, Page, sync_playwright

from bench import page_motion
from bench.page_motion import Moved
from bench.report import Columns, Report, Spread, arguments
from cog_adapt import Client
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.server.command.local_server import local_server

ROOT = Path(__file__).parent.parent
BUILT = ROOT / "cog_adapt" / "server" / "page"
AXE = ROOT / "page" / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = Path("/usr/bin/chromium")
VIEWS = ("predict", "train", "history/predictions", "history/adapters", "self-test", "server")
READY_SECONDS = 300.0
COLUMNS: Columns = {"figure": str, "value": str, "goal": str}

WATCH = """window.tasks = [];
new PerformanceObserver(list => window.tasks.push(...list.getEntries().map(e => e.duration)))
  .observe({type: 'longtask', buffered: true});"""
PAINT = """() => new Promise(resolve => {
  const look = () => {
    const found = performance.getEntriesByName('first-contentful-paint')[0];
    if (found) resolve(found.startTime); else requestAnimationFrame(look);
  };
  look();
})"""
LARGE = """() => {
  const run = document.querySelector('run-view').watching.run;
  run.complete({status: 'succeeded', output: 'words '.repeat(1_700_000), logs: ''});
}"""
PAINTED = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 200)))"
FOUND = "axe.run().then(found => found.violations.length)"
WIDTHS = (1280, 380)


def weight() -> int:
    """Return the bytes of all loaded files, gzipped."""
    files = [BUILT / "index.html", *(BUILT / "assets").iterdir()]
    return sum(len(gzip.compress(path.read_bytes(), 9)) for path in files)


@contextlib.contextmanager
def browsing(server: Client) -> Iterator[BrowserContext]:
    """Open a browser that has the server's key."""
    kept = f"sessionStorage.setItem('cog-adapt.key', {json.dumps(server.key)})"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.add_init_script(kept)
        context.add_init_script(WATCH)
        yield context
        browser.close()


def opened(context: BrowserContext, url: str) -> Page:
    """Open the page, and wait for its form."""
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("run-view form", timeout=60_000)
    return page


def paints(context: BrowserContext, url: str, times: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds to the first paint with content, and all long tasks meanwhile."""
    found, tasks = [], []
    for _ in range(times):
        page = opened(context, url)
        found.append(page.evaluate(PAINT))
        tasks += page.evaluate("window.tasks")
        page.close()
    return found, tasks


def run(page: Page) -> None:
    """Run a prediction to its end, so that the page can show one."""
    inputs = "{text: 'Where is my parcel?', labels: ['delivery', 'refund']}"
    page.evaluate(f"document.querySelector('run-view').set({inputs})")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_selector("[data-phase=succeeded]", timeout=60_000)


def large_output(page: Page) -> list[float]:
    """Return the long tasks while a text of 10 MB becomes the output."""
    page.evaluate("window.tasks.length = 0")
    page.evaluate(LARGE)
    page.evaluate(PAINTED)
    tasks: list[float] = page.evaluate("window.tasks")
    return tasks


def violations(page: Page) -> int:
    """Return how many violations axe-core finds, in all views, wide and narrow, light and dark."""
    page.evaluate(AXE.read_text())
    count = 0
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for width, scheme, view in itertools.product(WIDTHS, schemes, VIEWS):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.evaluate("view => (location.hash = `#/${view}`)", view)
        page.wait_for_timeout(500)
        count += page.evaluate(FOUND)
    return count


def measure(*, quick: bool) -> list[dict[str, Any]]:
    """Return a row for each figure."""
    turns, seconds = (1, 2.0) if quick else (5, 4.0)
    with local_server("predict", {}) as server:
        _wait_until_ready(server)
        with browsing(server) as context:
            load = os.getloadavg()[0]
            painted, tasks = paints(context, server.url, 2 if quick else 9)
            page = opened(context, server.url)
            run(page)
            large = large_output(page)
            grown = page_motion.curve(page, turns, seconds)
            scrolled = page_motion.rows(page, turns, seconds)
            count = violations(page) if AXE.exists() else None
    first = Spread.of(painted)
    return [
        _row("load of the machine (1 minute), on its cores", f"{load:.1f} on {os.cpu_count()}", ""),
        _row("bytes, gzipped", weight(), "at most 80,000"),
        _row(
            "first paint, ms",
            f"{first.median:.0f} ({first.low:.0f}–{first.high:.0f})",
            "at most 300",
        ),
        _row("long tasks while it loads, each time", f"{len(tasks) / len(painted):.1f}", ""),
        _row("longest of them, ms", round(max(tasks, default=0.0)), ""),
        *_curve_rows(grown),
        *_table_rows(scrolled),
        _row("longest task while a text of 10 MB is shown, ms", round(max(large, default=0)), ""),
        _row(
            "axe: violations, in all views, widths and colours",
            "not asked" if count is None else count,
            "0",
        ),
    ]


def _curve_rows(grown: Moved) -> list[dict[str, Any]]:
    return [
        _row("frames a second, nothing to draw", _middle(grown.still), ""),
        _row(
            "frames a second, 10,000 points growing 60 times a second", _middle(grown.moving), "60"
        ),
        _row("updates sent; drawings of them", f"{grown.sent}; {grown.drawn}", ""),
        _row("main thread at work, %: nothing to draw", _percent(grown.idle), ""),
        _row("the same with the curve", _percent(grown.busy), "below 100"),
        _row("long tasks meanwhile", len(grown.tasks), ""),
        _row("keys typed meanwhile; dropped", f"{grown.typed}; {grown.dropped}", "0 dropped"),
    ]


def _table_rows(scrolled: Moved) -> list[dict[str, Any]]:
    return [
        _row("frames a second, 5,000 rows scrolled", _middle(scrolled.moving), "60"),
        _row("main thread at work meanwhile, %", _percent(scrolled.busy), "below 100"),
        _row(
            "keys typed into a row; dropped", f"{scrolled.typed}; {scrolled.dropped}", "0 dropped"
        ),
        _row("long tasks meanwhile", len(scrolled.tasks), ""),
    ]


def _middle(values: list[float]) -> str:
    found = Spread.of(values)
    return f"{found.median:.1f} ({found.low:.1f}–{found.high:.1f})"


def _percent(shares: list[float]) -> str:
    return f"{Spread.of(shares).median:.0%}".removesuffix("%")


def _row(figure: str, value: object, goal: str) -> dict[str, Any]:
    return {"figure": figure, "value": str(value), "goal": goal}


def _wait_until_ready(server: Client) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if _is_ready(server):
            return
        time.sleep(0.2)
    raise TimeoutError(f"not ready after {READY_SECONDS:g} s; see the server's log")


def _is_ready(server: Client) -> bool:
    headers = {"Authorization": f"Bearer {server.key}"}
    try:
        return httpx2.get(f"{server.url}/readyz", headers=headers).status_code == 200
    except httpx2.TransportError:
        return False


def main() -> None:
    """Measure the page in Chromium."""
    chosen = arguments(main.__doc__)
    settings = {"points": page_motion.POINTS, "rows": page_motion.ROWS}
    report = Report("The page in Chromium", COLUMNS, measure(quick=chosen.quick), settings)
    report.publish(choose_precision(RunnerSettings.from_environment()), chosen.output)


if __name__ == "__main__":
    main()
