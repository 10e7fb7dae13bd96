"""The pictures of the README and the documents: `PAGE_IMAGES=1` takes them anew."""

import io
import os
from itertools import pairwise
from pathlib import Path

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Page, expect

from tests.cog_adapt.page.acts import paste, run, set_up, until_ended

pytest.importorskip("task", reason="the shipped task is not here")
pytestmark = pytest.mark.skipif(
    not os.environ.get("PAGE_IMAGES"), reason="PAGE_IMAGES=1 takes the pictures"
)

ROOT = Path(__file__).parents[3]
IMAGES = ROOT / "docs" / "images"
TICKETS = (ROOT / "examples" / "tickets.csv").read_text()
TEXTS = [
    "I forgot my password and the reset mail never comes.",
    "The program hangs when I import my old contacts.",
    "Could you add a button that archives all read messages?",
]
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 380, "height": 800}
TALL = {"width": 1280, "height": 960}  # the curve is in it
MOST_BYTES, FRAMES = 600_000, 120
LAST_MS, FIRST_MS, MOST_MS = 4000, 1500, 400
ENDED = "document.querySelector('#predict [data-phase]').dataset.phase === 'succeeded'"


def asked(page: Page, seed: int, method: str = "auto") -> None:
    """Ask three texts with 48 tickets; another seed is another adaptation."""
    paste(page, "#input-examples", TICKETS)
    set_up(page, texts=TEXTS, method=method, steps=20, seed=seed)


def frame(page: Page) -> Image.Image:
    """The page as it is now."""
    shot = page.screenshot(animations="disabled")
    return Image.open(io.BytesIO(shot)).convert("RGB")


def moving(frames: list[Image.Image]) -> bytes:
    """One animation of all frames that differ from the one before them."""
    kept = [frames[0]]
    kept += [
        later
        for earlier, later in pairwise(frames)
        if ImageChops.difference(earlier, later).getbbox() is not None
    ]
    lasts = [FIRST_MS, *[MOST_MS] * (len(kept) - 2), LAST_MS][: len(kept)]
    file = io.BytesIO()
    kept[0].save(
        file,
        "WEBP",
        save_all=True,
        append_images=kept[1:],
        duration=lasts,
        loop=0,
        quality=60,
        method=4,
    )
    return file.getvalue()


def test_a_moving_picture_of_the_page_while_a_model_adapts(visit, template):
    page = visit(template.url, viewport=TALL)
    frames = [frame(page)]
    asked(page, seed=41)  # with this seed gradient steps answer best, so there is a curve
    expect(page.locator("examples-table")).to_be_visible()
    frames.append(frame(page))
    run(page)
    while len(frames) < FRAMES and not page.evaluate(ENDED):
        frames.append(frame(page))
        page.wait_for_timeout(250)
    until_ended(page, "succeeded")
    expect(page.locator("loss-chart canvas")).to_be_visible()
    page.evaluate("() => new Promise(requestAnimationFrame)")
    frames.append(frame(page))
    animation = moving(frames)
    assert len(animation) <= MOST_BYTES
    (IMAGES / "page-adapting.webp").write_bytes(animation)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("window", [WIDE, NARROW], ids=["1280", "380"])
def test_pictures_of_the_main_screen(visit, template, window, scheme):
    page = visit(template.url, viewport=window, color_scheme=scheme)
    asked(page, seed=22)
    run(page)
    until_ended(page, "succeeded")
    page.screenshot(path=IMAGES / f"page-answer-{window['width']}-{scheme}.png")
