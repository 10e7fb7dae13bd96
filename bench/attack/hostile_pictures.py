"""Picture files that cost more than they seem to: by headers, blocks, scans and frames."""

import base64
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator

from PIL import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_PNG, _SIDE, _LARGE = b"\x89PNG\r\n\x1a\n", 60, 6_300  # the largest side that is still taken
_FILE_BYTES = 16 * 2**20 - 4_096  # as many as a picture may have
_RUN_OF_BLOCKS = 32_767  # empty blocks that one code of a JPEG's scan can stand for


def data_uri(content: bytes) -> str:
    """Return a file as a data URI."""
    return f"data:application/octet-stream;base64,{base64.b64encode(content).decode()}"


def saved(kind: str, side: int = _SIDE, mode: str = "RGB", **options: object) -> bytes:
    """Return a picture of one colour in a format."""
    file = io.BytesIO()
    Image.new(mode, (side, side)).save(file, kind, **options)
    return file.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    """Return a chunk of a PNG file with its checksum."""
    check = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)


def png(width: int, height: int, *chunks: bytes, colours: int = 0) -> bytes:
    """Return a PNG file of a header and any chunks."""
    header = struct.pack(">IIBBBBB", width, height, 8, colours, 0, 0, 0)
    return _PNG + chunk(b"IHDR", header) + b"".join(chunks) + chunk(b"IEND", b"")


def _pixels(count: int) -> bytes:
    return chunk(b"IDAT", zlib.compress(bytes(count), 9))


def segment(mark: int, content: bytes) -> bytes:
    """Return a segment of a JPEG file."""
    return bytes((0xFF, mark)) + struct.pack(">H", len(content) + 2) + content


def headers() -> Iterator[bytes]:
    """Yield headers of up to ten gigapixels in each format; TIFF is not read."""
    yield png(100_000, 100_000, _pixels(1_000))
    yield png(2**31 - 1, 2**31 - 1)
    frame = struct.pack(">BHHB", 8, 65_535, 65_535, 1) + bytes((1, 0x11, 0))
    yield b"\xff\xd8" + segment(0xC0, frame) + segment(0xDA, bytes((1, 1, 0, 0, 63, 0)))
    canvas = struct.pack("<B3x", 0x10) + (99_999).to_bytes(3, "little") * 2
    yield _riff(b"VP8X" + struct.pack("<I", 10) + canvas)
    yield b"GIF89a" + struct.pack("<HHBBB", 65_535, 65_535, 0, 0, 0) + b";"
    for height in (100_000, -100_000):
        size = struct.pack("<IiiHHIIIIII", 40, 100_000, height, 1, 24, 0, 0, 0, 0, 0, 0)
        yield b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + size
    yield b"II*\0" + struct.pack("<IHHHIIHHII", 8, 2, 256, 4, 1, 100_000, 257, 4, 1, 100_000)


def _riff(content: bytes) -> bytes:
    return struct.pack("<4sI4s", b"RIFF", len(content) + 4, b"WEBP") + content


def cut() -> Iterator[bytes]:
    """Yield each format's file, cut at a tenth, at a half and before its last byte."""
    for kind in FORMATS:
        whole = saved(kind, 400)
        for end in (len(whole) // 10, len(whole) // 2, -1):
            yield whole[:end]


def unusual() -> Iterator[bytes]:
    """Yield palettes, pictures in motion, rows that are interlaced, and a picture without rows."""
    yield saved("PNG", mode="P", transparency=bytes(range(256)))
    yield png(8, 8, _pixels(72), colours=3)  # of a palette that is not there
    yield png(8, 8, chunk(b"PLTE", bytes(3 * 300)), _pixels(72), colours=3)
    for kind in ("GIF", "WEBP", "PNG"):
        yield in_motion(kind, 2_000 if kind == "GIF" else 300)
    yield png(0, 0)
    yield saved("JPEG", mode="CMYK")


def in_motion(kind: str, count: int) -> bytes:
    """Return a picture of so many frames, each of another colour."""
    file, size = io.BytesIO(), (_SIDE, _SIDE)
    frames = [Image.new("RGB", size, (n % 256, n // 256, 7)) for n in range(count)]
    frames[0].save(file, kind, save_all=True, append_images=frames[1:])
    return file.getvalue()


def bombs() -> Iterator[bytes]:
    """Yield small files that unpack to large ones: texts, profiles and pixels."""
    zeros = zlib.compress(bytes(200_000_000), 9)
    yield png(8, 8, chunk(b"zTXt", b"a\0\0" + zeros), _pixels(72))
    yield png(8, 8, chunk(b"iTXt", b"a\0\1\0\0\0" + zeros), _pixels(72))
    yield png(8, 8, chunk(b"iCCP", b"a\0\0" + zeros), _pixels(72))
    yield png(8, 8, *[chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(10**6), 9))] * 300, _pixels(72))
    yield png(8, 8, chunk(b"IDAT", zeros))
    yield png(_LARGE, _LARGE, _pixels(_LARGE * (_LARGE + 1)))


def large_exif() -> Iterator[bytes]:
    """Yield pictures with a megabyte of EXIF."""
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 65_535) + bytes(10**6)
    yield png(8, 8, chunk(b"eXIf", exif[6:]), _pixels(72))
    parts = [exif[start : start + 65_000] for start in range(0, len(exif), 65_000)]
    begin, rest = saved("JPEG")[:2], saved("JPEG")[2:]
    yield begin + b"".join(segment(0xE1, b"Exif\0\0" + part) for part in parts) + rest
    yield saved("WEBP", exif=exif)


def many_blocks() -> Iterator[bytes]:
    """Yield files of the largest allowed size, with as many blocks as fit."""
    yield png(8, 8, chunk(b"teXt", b"") * (_FILE_BYTES // 12), _pixels(72))
    yield png(8, 8, _pixels(72), chunk(b"teXt", b"") * (_FILE_BYTES // 12))
    yield png(8, 8, chunk(b"tEXt", b"a\0b") * (_FILE_BYTES // 15), _pixels(72))
    whole = zlib.compress(bytes(72))
    yield png(8, 8, chunk(b"IDAT", b"") * (_FILE_BYTES // 12), chunk(b"IDAT", whole))
    begin, rest = saved("JPEG")[:2], saved("JPEG")[2:]
    yield begin + segment(0xE9, b"") * (_FILE_BYTES // 4) + rest
    yield begin + segment(0xFE, b"") * (_FILE_BYTES // 4) + rest
    yield begin + b"\xff" * _FILE_BYTES + rest
    yield begin + rest[:-2] + b"\xff" * _FILE_BYTES + rest[-2:]
    yield png(8, 8, chunk(b"IEND", b""), chunk(b"teXt", b"") * (_FILE_BYTES // 12), _pixels(72))
    whole = saved("GIF")
    table = 13 + 3 * 2 ** (1 + (whole[10] & 7)) if whole[10] & 128 else 13
    comment = b"!\xfe" + (b"\xff" + b"a" * 255) * (_FILE_BYTES // 256) + b"\0"
    yield whole[:table] + comment + whole[table:]
    yield whole[:table] + b"!\xfe\x01a\0" * (_FILE_BYTES // 5) + whole[table:]
    yield whole[:table] + b"!\xf9\0" * (_FILE_BYTES // 3) + whole[table:]
    yield whole[:table] + b"\0" * _FILE_BYTES + whole[table:]
    yield _riff(b"VP8X" + struct.pack("<I", 10) + bytes(10) + b"junk\0\0\0\0" * (_FILE_BYTES // 8))


def many_scans(side: int = _LARGE, scans: int = 2_000) -> bytes:
    """Return a progressive JPEG that refines each of its blocks again and again by nothing."""
    blocks = (-(-side // 8)) ** 2
    found = b"\xff\xd8" + segment(0xDB, b"\0" + bytes([1] * 64))
    found += segment(0xC2, struct.pack(">BHHB", 8, side, side, 1) + bytes((1, 0x11, 0)))
    found += segment(0xC4, b"\0\1" + bytes(15) + b"\0")
    found += segment(0xC4, b"\x10\1" + bytes(15) + b"\xe0")
    found += segment(0xDA, bytes((1, 1, 0, 0, 0, 0))) + bytes(-(-blocks // 8))
    bits = ("0" + "1" * 14) * -(-blocks // _RUN_OF_BLOCKS)
    bits += "1" * (-len(bits) % 8)
    coded = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    return found + (segment(0xDA, bytes((1, 1, 0, 1, 63, 0))) + coded) * scans + b"\xff\xd9"


def one_row() -> bytes:
    """Return a BMP file whose only row is as long as the file may be."""
    width = _FILE_BYTES // 3
    size = struct.pack("<IiiHHIIIIII", 40, width, 1, 1, 24, 0, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + 3 * width, 0, 0, 54) + size + bytes(3 * width)


def folders(count: int) -> bytes:
    """Return a ZIP of so many different small pictures in two folders."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(count):
            row = chunk(b"IDAT", zlib.compress(bytes((0, number % 256, number // 256))))
            archive.writestr(f"{'ab'[number % 2]}/{number}.png", png(2, 1, row))
    return file.getvalue()
