"""The page while something moves: a long curve that grows, a long table that is scrolled.

Frames are counted with and without the work, in turns, because the page cannot lose frames that
the display's own clock does not give. An update is a step of an adaptation, three metrics; it uses
the page's own `Run`, panel and chart. Chromium renders in software here.
"""

from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page

POINTS = 10_000
ROWS = 5_000
KEY_PAUSE_MS = 60
TYPED = "typed while the curve grows "

_FRAMES = """seconds => new Promise(resolve => {
  let frames = 0, began = 0;
  const count = now => {
    began ||= now;
    if (now - began < seconds * 1000) { frames += 1; requestAnimationFrame(count); }
    else resolve(frames / ((now - began) / 1000));
  };
  requestAnimationFrame(count);
})"""
_ADAPT = """points => {
  const run = document.querySelector('run-view').watching.run;
  run.phase = 'running';
  run.output = undefined;
  for (let number = 1; number <= points; number += 1)
    run.course.steps.push({number, loss: 1 / (1 + number / 500), norm: 1 + Math.sin(number / 50)});
  run.course.total = 2 * points;
  run.changed();
}"""
# One update each 1/60 s by the clock: late timers catch up, so that none is left out.
_GROW = """async seconds => {
  const run = document.querySelector('run-view').watching.run;
  const chart = document.querySelector('loss-chart');
  const draw = chart.plot.setData.bind(chart.plot);
  const counted = {sent: 0, drawn: 0};
  chart.plot.setData = data => { counted.drawn += 1; draw(data); };
  const metric = (name, value) =>
    run.take({id: '', name: 'metric', data: {name: `adaptation.${name}`, value}});
  const began = performance.now();
  await new Promise(resolve => {
    const tick = setInterval(() => {
      const due = Math.min(seconds, (performance.now() - began) / 1000) * 60;
      while (counted.sent + 1 <= due) {
        metric('step', run.course.steps.length + 1);
        metric('loss', 0.05);
        metric('gradient_norm', 1);
        counted.sent += 1;
      }
      if (due >= seconds * 60) { clearInterval(tick); resolve(); }
    }, 4);
  });
  await new Promise(requestAnimationFrame);
  chart.plot.setData = draw;
  return counted;
}"""
_FILL = """count => document.querySelector('run-view').set({examples:
  Array.from({length: count}, (_, n) => ({text: `text ${n}`, label: `label ${n % 7}`}))})"""
_SCROLL = """async seconds => {
  const rows = document.querySelector('examples-table .rows');
  let frames = 0, began = 0;
  await new Promise(resolve => {
    const move = now => {
      began ||= now;
      rows.scrollTop = (rows.scrollTop + 100) % (rows.scrollHeight - rows.clientHeight);
      frames += 1;
      if (now - began < seconds * 1000) requestAnimationFrame(move); else resolve();
    };
    requestAnimationFrame(move);
  });
  return frames / seconds;
}"""


@dataclass
class Moved:
    """The counts while something moved.

    Attributes:
        still: frames a second without it, in turns.
        moving: frames a second with it.
        sent: updates that were due.
        drawn: updates that were drawn.
        busy: seconds of the page's main thread, of each second with it.
        idle: the same of each second without it.
        tasks: milliseconds of each task of more than 50.
        typed: keys that were pressed.
        dropped: pressed keys that were missing at the end.
    """

    still: list[float]
    moving: list[float]
    sent: int
    drawn: int
    busy: list[float]
    idle: list[float]
    tasks: list[float]
    typed: int
    dropped: int


def curve(page: Page, turns: int, seconds: float) -> Moved:
    """Let a curve of 10,000 points grow 60 times a second while keys are typed."""
    moved = Moved([], [], 0, 0, [], [], [], 0, 0)
    busy = _Busy(page)
    page.evaluate(_ADAPT, POINTS)
    page.wait_for_selector("loss-chart canvas")
    for _ in range(turns):
        busy.share()
        moved.still.append(page.evaluate(_FRAMES, seconds))
        moved.idle.append(busy.share())
        page.evaluate("window.tasks.length = 0")
        page.evaluate(f"seconds => void (window.counted = ({_FRAMES})(seconds))", seconds)
        page.evaluate(f"seconds => void (window.growing = ({_GROW})(seconds))", seconds)
        _type(page, "#input-text", seconds, moved)
        counted: dict[str, Any] = page.evaluate("window.growing")
        moved.moving.append(page.evaluate("window.counted"))
        moved.sent += counted["sent"]
        moved.drawn += counted["drawn"]
        moved.busy.append(busy.share())
        moved.tasks += page.evaluate("window.tasks")
    return moved


def rows(page: Page, turns: int, seconds: float) -> Moved:
    """Scroll through 5,000 rows of examples, 100 pixels a frame, and type into one of them."""
    moved = Moved([], [], 0, 0, [], [], [], 0, 0)
    busy = _Busy(page)
    page.evaluate(_FILL, ROWS)
    page.wait_for_selector("examples-table .gridrow")
    for _ in range(turns):
        busy.share()
        moved.still.append(page.evaluate(_FRAMES, seconds))
        moved.idle.append(busy.share())
        page.evaluate("window.tasks.length = 0")
        moved.moving.append(page.evaluate(_SCROLL, seconds))
        moved.busy.append(busy.share())
        page.locator("examples-table .rows").evaluate("each => each.scrollTo(0, 0)")
        _type(page, "[aria-label='text of row 1']", seconds, moved)
        page.keyboard.press("Tab")
        moved.tasks += page.evaluate("window.tasks")
    return moved


class _Busy:
    """The share of time that the page's main thread works, by the browser's own count."""

    def __init__(self, page: Page) -> None:
        self._browser = page.context.new_cdp_session(page)
        self._browser.send("Performance.enable")
        self._at, self._worked = self._now()

    def share(self) -> float:
        """Return the share since the last call."""
        before = self._at, self._worked
        self._at, self._worked = self._now()
        return (self._worked - before[1]) / max(self._at - before[0], 1e-9)

    def _now(self) -> tuple[float, float]:
        found = self._browser.send("Performance.getMetrics")["metrics"]
        values = {each["name"]: each["value"] for each in found}
        return values["Timestamp"], values["TaskDuration"]


def _type(page: Page, selector: str, seconds: float, moved: Moved) -> None:
    """Type for so long into an empty input."""
    text = (TYPED * 100)[: int(seconds * 1000 / KEY_PAUSE_MS)]
    page.fill(selector, "")
    page.focus(selector)
    page.keyboard.type(text, delay=KEY_PAUSE_MS / 2)
    moved.typed += len(text)
    moved.dropped += len(text) - len(page.input_value(selector))
