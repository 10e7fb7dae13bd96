"""Problems of inputs: each in a few words, and a bounded number in one answer."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from cog_adapt.server.errors import RequestError

MOST_PROBLEMS = 100
_MOST_CHARACTERS = 1_000  # characters of a message
_SHOWN = 300
_URL = re.compile(r"https?://|data:")


class Problem(msgspec.Struct, frozen=True):
    """One problem of the inputs, in Cog's words."""

    loc: tuple[str, ...]
    msg: str
    type: str = "value_error"


class InvalidInputs(RequestError):
    """The inputs do not fit the model.

    Attributes:
        problems: each of them.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(f"{len(problems)} inputs do not fit")
        self.problems = problems


def first(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Take the shown number of problems, and one more as a sign that there are more."""
    return islice(problems, MOST_PROBLEMS + 1)


def bounded(found: list[Problem], passed_over: int) -> list[Problem]:
    """Return the first problems in few words, and at the end the number of others."""
    shown = [
        msgspec.structs.replace(
            each, loc=(*each.loc[:2], shorten(each.loc[2])), msg=shorten(each.msg)
        )
        for each in found[:MOST_PROBLEMS]
    ]
    more = len(found) - len(shown)
    others = [f"there is at least {more:,} more"] if more else []
    others += [f"{passed_over:,} items of lists were not looked at"] if passed_over else []
    if others:
        said = f"the first {len(shown):,} problems are listed; {', and '.join(others)}"
        shown.append(Problem(("body", "input"), f"{said}. Correct these first."))
    return shown


def shorten(text: str) -> str:
    """Return a message; of a long message, return only the beginning and the end."""
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_SHOWN]}… ({len(text):,} characters) …{text[-_SHOWN:]}"


def long_strings(
    value: object, most_characters: int, place: tuple[object, ...] = ()
) -> Iterator[Problem]:
    """Refuse strings that are too long, at any depth."""
    if isinstance(value, str) and len(value) > most_characters:
        yield Problem(
            ("body", "input", "/".join(map(str, place))),
            f"{len(value):,} characters; at most {most_characters:,} are allowed "
            "(MAX_STRING_LENGTH). Send the text as a file.",
        )
    elif isinstance(value, dict | list):
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for step, member in members:
            yield from long_strings(member, most_characters, (*place, step))


def files_that_are_no_urls(name: str, value: object) -> Iterator[Problem]:
    """Refuse a local path, or another scheme: neither may reach the model."""
    items = enumerate(value) if isinstance(value, list) else [(None, value)]
    for index, item in items:
        if isinstance(item, str) and not _URL.match(item):
            place = name if index is None else f"{name}/{index}"
            shown = msgspec.json.encode(item[:80]).decode()
            reason = f"{shown} is not an http(s) or data URL. Send the file as one of these."
            yield Problem(("body", "input", place), reason)
