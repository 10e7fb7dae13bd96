"""The pictures of the README and the documents: `PAGE_IMAGES=1` takes them anew."""

import io
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Page, expect

from tests.cog_adapt.page.acts import PATIENCE_MS, drop, file_of, paste, run, set_up, until_ended

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
MOST_BYTES, MOST_BYTES_OF_ONE, FRAMES = 600_000, 250_000, 120
MOST_BYTES_OF_LETTERS, ALPHABET = 1_000_000, "ABCDEFGHIJKLM\nNOPQRSTUVWXYZ\nHamburg 27"
GAP, SHEET = 12, "#808080"
ENDS = re.compile("succeeded|failed")
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


def moving(frames: list[Image.Image], quality: int = 60) -> bytes:
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
        quality=quality,
        method=4,
    )
    return file.getvalue()


def taken_while_it_runs(page: Page, frames: list[Image.Image]) -> list[Image.Image]:
    """Run what the form holds, and take pictures until it ends."""
    run(page)
    while len(frames) < FRAMES and not page.evaluate(ENDED):
        frames.append(frame(page))
        page.wait_for_timeout(250)
    until_ended(page, "succeeded")
    page.evaluate("() => new Promise(requestAnimationFrame)")
    return [*frames, frame(page)]


def test_a_moving_picture_of_the_page_while_a_model_adapts(visit, template):
    page = visit(template.url, viewport=TALL)
    frames = [frame(page)]
    asked(page, seed=41)  # with this seed gradient steps answer best, so there is a curve
    expect(page.locator("examples-table")).to_be_visible()
    frames.append(frame(page))
    frames = taken_while_it_runs(page, frames)
    expect(page.locator("loss-chart canvas")).to_be_visible()
    animation = moving(frames)
    assert len(animation) <= MOST_BYTES
    (IMAGES / "page-adapting.webp").write_bytes(animation)


def test_a_moving_picture_of_an_alphabet_that_takes_a_style(visit, project, tmp_path):
    if project.kind != "diffusion":
        pytest.skip("this kind draws no letters")
    page = visit(project.url, viewport=TALL)
    taught = next(each for each in project.requests.values() if each.get("examples"))
    files = [file_of(tmp_path, each["caption"], each["image"]) for each in taught["examples"]]
    set_up(page, prompt=ALPHABET, height=64, previews=6, steps=100, seed=7)
    frames = [frame(page)]
    drop(page, "examples-editor .drop", *files)
    expect(page.locator("examples-grid .tile")).to_have_count(len(files))
    frames.append(frame(page))
    frames = taken_while_it_runs(page, frames)
    page.get_by_role("button", name=re.compile("adapter", re.IGNORECASE)).first.wait_for()
    animation = moving(frames, quality=40)
    assert len(animation) <= MOST_BYTES_OF_LETTERS
    (IMAGES / "page-letters.webp").write_bytes(animation)


FRESH = {
    **dict.fromkeys(("image", "tabular", "speech", "diffusion"), lambda seed: {"seed": seed}),
    "text": lambda seed: {"seed": seed, "method": "head"},  # 48 rows by steps take a minute
    "lm": lambda seed: {},  # it answers with the same words
}
"""What makes a request one that was not taught before: such an answer shows the difference."""


def plain_and_taught(requests: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is asked before teaching, and the request that teaches."""
    taught = next(each for each in requests.values() if each.get("examples"))
    plain = [each for each in requests.values() if not each.get("examples")]
    return (plain[0] if plain else {**taught, "examples": []}), taught


def shot(page: Page, inputs: dict[str, Any]) -> Image.Image:
    """The page with an ended run of these inputs."""
    page.get_by_role("button", name="Start over").click()
    set_up(page, **inputs)
    run(page)
    expect(page.locator("#predict [data-phase]")).to_have_attribute(
        "data-phase", ENDS, timeout=PATIENCE_MS
    )
    expect(page.get_by_text("Asking for the answer before")).to_have_count(0)
    page.evaluate("() => new Promise(done => setTimeout(done, 500))")  # bars grow, sounds load
    return frame(page)


def sheet(wide: list[Image.Image], narrow: list[Image.Image]) -> Image.Image:
    """Four wide pictures above four narrow ones, each a half and three quarters of its size."""
    whole = Image.new("RGB", (2 * 640 + GAP, 2 * (400 + GAP) + 640), SHEET)
    for place, each in enumerate(wide):
        left, top = place % 2 * (640 + GAP), place // 2 * (400 + GAP)
        whole.paste(each.resize((640, 400), Image.Resampling.LANCZOS), (left, top))
    for place, each in enumerate(narrow):
        left = place * (304 + (whole.width - 4 * 304) // 3)
        whole.paste(each.resize((304, 640), Image.Resampling.LANCZOS), (left, whole.height - 640))
    return whole


def test_pictures_of_a_kind_before_and_after_teaching(visit, project, tmp_path):
    found: dict[int, list[Image.Image]] = {1280: [], 380: []}
    for window in (WIDE, NARROW):
        for inputs, name in zip(
            plain_and_taught(project.requests), ("before", "after"), strict=True
        ):
            for scheme in ("light", "dark"):
                page = visit(project.url, viewport=window, color_scheme=scheme)
                fresh = FRESH[project.kind](1000 + sum(map(len, found.values())))
                picture = shot(page, {**inputs, **fresh})
                picture.save(tmp_path / f"{project.kind}-{window['width']}-{name}-{scheme}.png")
                found[window["width"]].append(picture)
                page.close()
    file = io.BytesIO()
    sheet(found[1280], found[380]).save(file, "WEBP", quality=70, method=6)
    assert len(file.getvalue()) <= MOST_BYTES_OF_ONE
    (IMAGES / f"page-{project.kind}.webp").write_bytes(file.getvalue())
