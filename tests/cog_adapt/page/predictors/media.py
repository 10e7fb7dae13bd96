"""A predictor whose outputs are files: a picture, a sound, a film that is none, and others."""

import struct
import tempfile
import wave
import zlib
from pathlib import Path as LocalPath
from typing import Any

from cog import BaseRunner, Input, Path


def _picture(file: LocalPath) -> None:
    """A red PNG of 3 by 2."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = b"".join(b"\0" + b"\xff\0\0" * 3 for _ in range(2))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 2, 8, 2, 0, 0, 0))
    file.write_bytes(
        b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )


def _sound(file: LocalPath) -> None:
    """Half a second of silence."""
    with wave.open(str(file), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(8000))


class Predictor(BaseRunner):
    def run(self, elsewhere: str = Input(default="")) -> Any:
        folder = LocalPath(tempfile.mkdtemp())
        _picture(folder / "picture.png")
        _sound(folder / "sound.wav")
        (folder / "film.mp4").write_bytes(b"no film")
        (folder / "words.txt").write_text("in a file")
        names = ("picture.png", "sound.wav", "film.mp4", "words.txt")
        files: dict[str, Any] = {name.partition(".")[0]: Path(folder / name) for name in names}
        others = {"other": f"{elsewhere}/x.png", "otherSound": f"{elsewhere}/x.mp3"}
        return files | (others if elsewhere else {})
