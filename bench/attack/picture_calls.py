"""Shows how long one picture of each format occupies a decoding thread, and its longest call in C.

The pictures are the largest that are taken. Times are processor time of the thread, which other
load hardly changes; no other thread of Python runs during a call that keeps the interpreter.

    python -m bench.attack.picture_calls
"""

import io
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

from PIL import Image

from bench.attack import hostile_pictures
from examples.image.pictures import MOST_PIXELS, MOST_WEBP_PIXELS, pixels_of

_REPEATS = 3


class LongestCall:
    """A profiler of one thread that remembers the longest call in C.

    Attributes:
        milliseconds: of processor time.
        name: of the function.
    """

    def __init__(self) -> None:
        self.milliseconds, self.name = 0.0, ""
        self._began: list[float] = []

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:  # noqa: ANN401
        """Take an event of `sys.setprofile`."""
        if event == "c_call":
            self._began.append(time.thread_time())
        elif event in ("c_return", "c_exception") and self._began:
            took = 1_000 * (time.thread_time() - self._began.pop())
            if took > self.milliseconds:
                self.milliseconds, self.name = took, function.__qualname__


def measured(work: Callable[[], object]) -> tuple[float, LongestCall]:
    """Return the milliseconds of the thread that work takes, and its longest call."""
    began = time.thread_time()
    work()
    whole = 1_000 * (time.thread_time() - began)
    longest = LongestCall()
    sys.setprofile(longest)
    try:
        work()
    finally:
        sys.setprofile(None)
    return whole, longest


def largest() -> Iterator[tuple[str, bytes]]:
    """Yield a name and a picture of each format and of each form that costs more."""
    side, webp = int(MOST_PIXELS**0.5), int(MOST_WEBP_PIXELS**0.5)
    noise = Image.effect_noise((side, side), 90)
    yield "PNG, one colour", hostile_pictures.saved("PNG", side, "L")
    yield "PNG, RGBA", hostile_pictures.saved("PNG", side, "RGBA")
    yield "PNG, noise", _saved(noise.quantize(4), "PNG")
    yield "JPEG", _saved(noise.convert("RGB"), "JPEG", quality=30)
    yield "JPEG, progressive", _saved(noise.convert("RGB"), "JPEG", quality=30, progressive=True)
    yield "JPEG, 100 scans", hostile_pictures.many_scans(side, 99)
    yield "GIF", _saved(noise.quantize(4), "GIF")
    yield "BMP", hostile_pictures.saved("BMP", int((16 * 2**20 / 3 - 1_000) ** 0.5))
    yield "WebP", hostile_pictures.saved("WEBP", webp)
    yield "WebP, noise", _saved(noise.crop((0, 0, webp, webp)).convert("RGB"), "WEBP", quality=1)
    yield "BMP of one row", hostile_pictures.one_row()
    yield "EXIF", list(hostile_pictures.large_exif())[0]


def _saved(picture: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def main() -> None:
    """Print a row for each picture."""
    for name, content in largest():
        try:
            found = [measured(partial(pixels_of, content)) for _ in range(_REPEATS)]
        except ValueError as error:
            print(f"| {name} | refused: {str(error)[:60]} | |")
            continue
        whole, longest = (
            min(each for each, _ in found),
            min((each for _, each in found), key=lambda each: each.milliseconds),
        )
        call = f"{longest.milliseconds:.0f} ({longest.name})"
        print(f"| {name} | {len(content):,} | {whole:.0f} | {call} |", flush=True)


if __name__ == "__main__":
    main()
