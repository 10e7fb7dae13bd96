"""Files made from sound ones by a seeded random: flips, cuts, insertions, lengths, splices."""

import random
from collections.abc import Iterator, Sequence

_NUMBERS = (0, 1, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1)
_WORDS = (b"[", b"{", b'"', b",", b"\n", b"\0", b"\xff\xfe", b"\\ud800", b"1e999", b"NaN", b"PK")


def mutated(sound: Sequence[bytes], count: int, seed: int = 0) -> Iterator[bytes]:
    """Yield `count` files, each of one to three changes to one of the sound ones."""
    drawn = random.Random(seed)
    for _ in range(count):
        content = bytearray(drawn.choice(sound))
        for _ in range(drawn.randint(1, 3)):
            drawn.choice(_CHANGES)(content, drawn, sound)
        yield bytes(content)


def _flip(content: bytearray, drawn: random.Random, _sound: Sequence[bytes]) -> None:
    for _ in range(drawn.randint(1, 8)):
        if content:
            content[drawn.randrange(len(content))] ^= 1 << drawn.randrange(8)


def _cut(content: bytearray, drawn: random.Random, _sound: Sequence[bytes]) -> None:
    del content[drawn.randint(0, len(content)) :]


def _remove(content: bytearray, drawn: random.Random, _sound: Sequence[bytes]) -> None:
    start = drawn.randint(0, len(content))
    del content[start : start + drawn.randint(1, 40)]


def _insert(content: bytearray, drawn: random.Random, _sound: Sequence[bytes]) -> None:
    place = drawn.randint(0, len(content))
    times = drawn.choice((1, 1, 2, 100, 5_000))
    content[place:place] = drawn.choice((*_WORDS, drawn.randbytes(4))) * times


def _number(content: bytearray, drawn: random.Random, _sound: Sequence[bytes]) -> None:
    size = drawn.choice((1, 2, 4))
    value = drawn.choice(_NUMBERS) % 256**size
    place = drawn.randrange(max(1, min(len(content), drawn.choice((64, 2**20)))))
    content[place : place + size] = value.to_bytes(size, drawn.choice(("little", "big")))


def _splice(content: bytearray, drawn: random.Random, sound: Sequence[bytes]) -> None:
    other = drawn.choice(sound)
    start, place = drawn.randint(0, len(other)), drawn.randint(0, len(content))
    content[place:] = other[start:]


_CHANGES = (_flip, _flip, _cut, _remove, _insert, _number, _number, _splice)
