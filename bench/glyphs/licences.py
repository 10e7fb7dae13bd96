"""Which licence a Debian package's fonts have, by its copyright file."""

import logging
import re
from typing import Literal

from debian.copyright import Copyright, Error, FilesParagraph

Licence = Literal["ofl", "apache", "mit", "public-domain", "other"]

logging.getLogger("debian").setLevel(logging.CRITICAL)  # old addresses of the format are no news
_NAMES: tuple[tuple[str, Licence], ...] = (
    (r"(SIL.)?(Open Font|OFL).*", "ofl"),
    (r"SIL.*", "ofl"),
    (r"Apache.*", "apache"),
    (r"(MIT|Expat).*", "mit"),
    (r"(public.?domain|CC0|PD)\b.*", "public-domain"),
)


def licence_of(text: str) -> Licence:
    """Return the licence that all files of a package have, the packaging itself left out.

    Args:
        text: the package's `copyright`.

    Returns:
        "other" where files differ, where no name is known, and where the text only mentions one of
        these licences beside the GNU ones. Nothing is guessed in favour of a font.
    """
    try:
        named = {
            str(paragraph.license.synopsis)
            for paragraph in Copyright(text.splitlines(), strict=False).all_paragraphs()
            if isinstance(paragraph, FilesParagraph)
            and paragraph.license is not None
            and not all(name.startswith("debian/") for name in paragraph.files)
        }
    except (Error, ValueError):
        return _licence_of_prose(text)
    found = {_licence_of_name(name) for name in named}
    return found.pop() if len(found) == 1 else "other"


def _licence_of_name(name: str) -> Licence:
    for pattern, licence in _NAMES:
        if re.fullmatch(pattern, name, re.IGNORECASE):
            return licence
    return "other"


def _licence_of_prose(text: str) -> Licence:
    if re.search(r"\bL?GPL|General Public|Creative Commons", text):
        return "other"
    return "ofl" if re.search(r"open font licen[cs]e", text, re.IGNORECASE) else "other"
