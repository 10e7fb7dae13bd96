"""Mail: unwanted advertisements, similar ones that were asked for, and letters."""

import email
import email.message
import email.policy
import itertools
import re
from collections.abc import Iterable, Iterator

from bench.sets.unseen import sources

Labelled = Iterable[tuple[str, str]]
"""Labels with texts."""

_FIRST_CHARACTERS = 400
_PER_FOLDER = 700


def mail() -> Labelled:
    """Yield mail that is spam and mail that is not, newsletters and offers among the latter."""
    names = {"spam-2": "spam", "hard-ham-1": "not spam", "easy-ham-2": "not spam"}
    return _folders(names)


def advertisements() -> Labelled:
    """Yield mail in three kinds: spam, newsletters that were asked for, letters."""
    return _folders({"spam-1": "spam", "hard-ham-1": "newsletter", "easy-ham-1": "personal"})


def subjects() -> Labelled:
    """Yield the subjects alone, of unwanted and of wanted mail."""
    for label, text in _folders({"spam-2": "unwanted", "easy-ham-2": "wanted"}):
        yield label, text.split("\n", 1)[0]


def _folders(names: dict[str, str]) -> Iterator[tuple[str, str]]:
    for folder, label in names.items():
        files = sources.MAIL.texts(rf"package/data/{folder}/.*\.txt")
        shown = (_shown(data) for _, data in itertools.islice(files, _PER_FOLDER))
        yield from ((label, text) for text in shown if text)


def _shown(data: bytes) -> str:
    """Return subject and first lines; nothing if a message cannot be read."""
    try:
        message = email.message_from_bytes(data, policy=email.policy.default)
        body = message.get_body(("plain", "html"))
        text = body.get_content() if body else ""
        subject = str(message["subject"] or "")
    except (LookupError, ValueError, AttributeError, UnicodeError, KeyError):
        return ""
    text = re.sub(r"(?s)<(script|style).*?</\1>|<[^>]*>", " ", text)
    subject = re.sub(r"(?i)^(\[[^\]]*\] *|re: *)+", "", subject.strip())
    words = " ".join(w for w in text.split() if not w.startswith(("http", ">", "--")))
    return f"{subject}\n{words[:_FIRST_CHARACTERS]}"
