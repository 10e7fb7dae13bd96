"""Names and single words: of persons, regions, languages, signs and things."""

import ast
import json
import re
from collections.abc import Iterable, Iterator

from bench.sets.unseen import sources

Labelled = Iterable[tuple[str, str]]
"""Labels with texts."""

_PERSONS = {
    "Finnish": "fi_FI",
    "Polish": "pl_PL",
    "Italian": "it_IT",
    "Turkish": "tr_TR",
    "Estonian": "et_EE",
    "Hungarian": "hu_HU",
    "Indonesian": "id_ID",
    "Yoruba": "yo_NG",
    "Czech": "cs_CZ",
    "Irish": "ga_IE",
    "Zulu": "zu_ZA",
    "Romanian": "ro_RO",
}
_COUNTRIES = {
    "GB": "United Kingdom",
    "SI": "Slovenia",
    "UG": "Uganda",
    "FR": "France",
    "IT": "Italy",
    "LV": "Latvia",
    "PH": "Philippines",
    "CZ": "Czechia",
    "MA": "Morocco",
    "RU": "Russia",
    "TR": "Turkey",
    "IS": "Iceland",
    "AZ": "Azerbaijan",
    "TH": "Thailand",
    "VN": "Viet Nam",
    "LT": "Lithuania",
    "US": "United States",
    "ES": "Spain",
}
_SIGNS = ["Sm", "So", "Sk", "Sc", "Po", "No", "Nd", "Nl", "Lm", "Ll", "Ps", "Mn"]
_EMOJI = {0: "smileys", 1: "people", 3: "nature", 4: "food", 5: "travel", 6: "activities"}
_MORE_EMOJI = {7: "objects", 8: "symbols", 9: "flags"}


def persons() -> Labelled:
    """Yield first names by the language in which they are common."""
    for language, locale in _PERSONS.items():
        tree = ast.parse(sources.FAKER.read(f"faker/providers/person/{locale}/__init__.py"))
        for name in sorted(set(_strings(tree, "first_names"))):
            yield language, name


def sexes() -> Labelled:
    """Yield first names of women and of men, of many languages, labelled by a letter."""
    for locale in _PERSONS.values():
        tree = ast.parse(sources.FAKER.read(f"faker/providers/person/{locale}/__init__.py"))
        women = set(_strings(tree, "first_names_female"))
        men = set(_strings(tree, "first_names_male"))
        yield from (("F", name) for name in sorted(women - men))
        yield from (("M", name) for name in sorted(men - women))


def regions() -> Labelled:
    """Yield names of provinces and towns by country."""
    whole = json.loads(sources.ISO_CODES.read("usr/share/iso-codes/json/iso_3166-2.json"))
    for each in whole["3166-2"]:
        if country := _COUNTRIES.get(each["code"][:2]):
            yield country, each["name"]


def signs() -> Labelled:
    """Yield names of characters, labelled with Unicode's two letters of their categories."""
    whole = sources.UNICODE.read("usr/share/unicode/UnicodeData.txt").decode("utf-8")
    for line in whole.splitlines():
        _, name, category, _ = line.split(";", 3)
        if category in _SIGNS and name[0] != "<":
            yield category, name.lower()


def emoji() -> Labelled:
    """Yield emoji by group: the name and its search words."""
    groups = _EMOJI | _MORE_EMOJI
    for each in json.loads(sources.EMOJI.read("package/en/data.json")):
        if each.get("group") in groups:
            yield groups[each["group"]], f"{each['label']}: {', '.join(each.get('tags') or ())}"


def _strings(tree: ast.AST, prefix: str) -> Iterator[str]:
    """Yield the strings that are assigned to names with a prefix."""
    for node in ast.walk(tree):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name) and target.id.startswith(prefix):
            found = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
            yield from (name for name in found if isinstance(name, str) and _is_name(name))


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[^\W\d_]{2,}", text) is not None
