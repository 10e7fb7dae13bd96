"""Checks JSON as strictly as Cog's server does, beside what msgspec checks.

JSON may have at most 127 levels, and no key twice, because it would be unclear which one counts.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise

import msgspec

MOST_LEVELS = 127
# Possessive, and content with a string that never ends: linear in time, constant in memory.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_TOKENS = re.compile(_STRING.pattern + rb"|[\[{\]}:]", re.DOTALL)
_ALL_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def levels(body: bytes) -> int:
    """Return how deep brackets nest outside strings; counted only if there are many."""
    if body.count(b"{") + body.count(b"[") <= MOST_LEVELS:
        return 0
    brackets = _STRING.sub(b"", body).translate(_ALL_SQUARE, _NO_BRACKETS)
    depth = 0
    while depth <= MOST_LEVELS and b"[]" in brackets:
        brackets = brackets.replace(b"[]", b"")  # the innermost of every nest: one level
        depth += 1
    return depth + brackets.count(b"[")  # those that are never closed


def find_duplicate(body: bytes, keys: Sequence[bytes], largest: bytes) -> str | None:
    """Return the first key of an object that comes twice.

    Args:
        body: a JSON object.
        keys: to look for, with their quotes.
        largest: the value of a member, in which keys do not count.
    """
    around = b"".join(body.partition(largest)[::2])
    if all(around.count(key) < 2 for key in keys) or not _loses_a_member(body, keys):
        return None
    tokens = (match.group() for match in _TOKENS.finditer(body))
    depth, seen = 0, set[bytes]()
    for token, following in pairwise(chain(tokens, (b"",))):
        depth += (token in b"[{") - (token in b"]}")
        is_key = depth == 1 and following == b":" and token in keys
        if is_key and token in seen:
            return token.decode().strip('"')
        if is_key:
            seen.add(token)
    return None


def _loses_a_member(body: bytes, keys: Sequence[bytes]) -> bool:
    """Return whether a key stands where no member is, of which the last counts."""
    members = _members.decode(body)
    return any(
        body.count(key) > (key[1:-1].decode() in members) + _count_in(members, key) for key in keys
    )


def _count_in(members: Mapping[str, msgspec.Raw], key: bytes) -> int:
    return sum(bytes(value).count(key) for value in members.values())
