"""Measures the playground's page in Chromium: weight, first paint, long tasks, axe, a long curve.

The curve has 10,000 points and grows by one each frame, while keys are typed into the form; each
key that is not there in the end is counted as dropped. Chromium draws in software here.
"""

import contextlib
import gzip
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import BrowserContext, Page, sync_playwright

from bench.report import Columns, Report, Spread, arguments
from cog_adapt.command.client import Client
from cog_adapt.command.local_server import local_server
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision

ROOT = Path(__file__).parent.parent
BUILT = ROOT / "cog_adapt" / "server" / "page"
AXE = ROOT / "page" / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = Path("/usr/bin/chromium")
POINTS = 10_000
READY_SECONDS = 300.0
TYPED = "typed while the curve grows " * 4
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
GROW = """async ([points, seconds]) => {
  const chart = document.createElement('loss-chart');
  chart.steps = Array.from({length: points}, (_, n) =>
    ({number: n, loss: 1 / (1 + n / 500), norm: 1 + Math.sin(n / 50)}));
  chart.count = points;
  document.querySelector('main').prepend(chart);
  await chart.updateComplete;
  let updates = 0;
  const began = performance.now();
  await new Promise(resolve => {
    const grow = async now => {
      chart.steps.push({number: points + updates, loss: .05, norm: 1});
      chart.count += 1;
      await chart.updateComplete;
      updates += 1;
      if (now - began < seconds * 1000) requestAnimationFrame(grow); else resolve();
    };
    requestAnimationFrame(grow);
  });
  window.updates = updates / ((performance.now() - began) / 1000);
}"""
FOUND = """axe.run().then(found => {
  const counts = {minor: 0, moderate: 0, serious: 0, critical: 0};
  for (const each of found.violations) counts[each.impact] += 1;
  return counts;
})"""


def weight() -> int:
    """Return the bytes of all that is loaded, gzipped."""
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


def curve(page: Page, seconds: float) -> dict[str, Any]:
    """Return how often a second a long curve is drawn, and how many keys are lost meanwhile."""
    page.evaluate("window.tasks.length = 0")
    page.evaluate(f"args => void (window.growing = ({GROW})(args))", [POINTS, seconds])
    page.focus("#input-text")
    page.keyboard.type(TYPED)
    page.evaluate("() => window.growing")
    arrived = page.input_value("#input-text")
    return {
        "updates": page.evaluate("window.updates"),
        "dropped": len(TYPED) - len(arrived),
        "long": page.evaluate("window.tasks"),
    }


def axe(page: Page) -> dict[str, int]:
    """Return what axe-core finds, by impact."""
    page.evaluate(AXE.read_text())
    counts: dict[str, int] = page.evaluate(FOUND)
    return counts


def measure(*, quick: bool) -> list[dict[str, Any]]:
    """Return a row for each figure."""
    with local_server("predict", {}) as server:
        _wait_until_ready(server)
        with browsing(server) as context:
            load = os.getloadavg()[0]
            painted, tasks = paints(context, server.url, 2 if quick else 9)
            page = opened(context, server.url)
            grown = curve(page, 2.0 if quick else 10.0)
            counts = axe(page) if AXE.exists() else None
    first = Spread.of(painted)
    return [
        _row("load of the machine (1 minute)", f"{load:.1f}", ""),
        _row("bytes, gzipped", weight(), "at most 150,000"),
        _row("first paint, ms", f"{first.median:.0f} ({first.low:.0f}–{first.high:.0f})", "500"),
        _row("long tasks while it loads", len(tasks), ""),
        _row("longest of them, ms", round(max(tasks, default=0.0)), ""),
        _row(f"updates a second, {POINTS:,} points", f"{grown['updates']:.1f}", "60"),
        _row("long tasks meanwhile", len(grown["long"]), ""),
        _row("dropped keys meanwhile", grown["dropped"], "0"),
        _row("axe: serious and critical", _grave(counts), "0"),
    ]


def _row(figure: str, value: object, goal: str) -> dict[str, Any]:
    return {"figure": figure, "value": str(value), "goal": goal}


def _grave(counts: dict[str, int] | None) -> str:
    return "not asked" if counts is None else str(counts["serious"] + counts["critical"])


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
    report = Report(
        "The page in Chromium", COLUMNS, measure(quick=chosen.quick), {"points": POINTS}
    )
    report.publish(choose_precision(RunnerSettings.from_environment()), chosen.output)


if __name__ == "__main__":
    main()
