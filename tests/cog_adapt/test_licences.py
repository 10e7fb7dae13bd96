"""Every package that a user installs has a licence that docs/releases.md allows, and says so."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cog_adapt.command.kinds import kept_files, kinds, weights_file
from tests.cog_adapt.distributions import brought, lines

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "releases.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMES = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache License Version 2.0, January 2004": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "GPLv2": "GPL-2.0-only",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""What packages write in place of an SPDX expression."""


def rows(title):
    """The rows of a section's table: the first cell, and the others as one text."""
    (text,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    found = re.findall(r"^\| ([^|]+) \| (.+) \|$", text, re.MULTILINE)
    return dict(found[1:])  # the first row is the head


def stated(metadata):
    """The licence in a distribution's metadata, in the words of SPDX where it is a known one."""
    if expression := metadata.get("License-Expression"):
        return expression
    classifiers = [c.split(" :: ")[-1] for c in metadata.get_all("Classifier") or []
                   if c.startswith("License :: ")]  # fmt: skip
    text = " ".join((metadata.get("License") or "none").split())
    text = next((name for name in NAMES if text.startswith(f"{name} http")), text)
    return " AND ".join(NAMES.get(each, each) for each in classifiers or [text])


def runtime(*left_out):
    """What is installed of requirements.txt and of the extras."""
    extras = PROJECT["optional-dependencies"].items()
    wanted = [*PROJECT["dependencies"], *lines((ROOT / "requirements.txt").read_text())]
    return brought([*wanted, *(one for name, own in extras if name not in left_out for one in own)])


def ids(licences):
    return {each for licence in licences for each in re.split(r" (?:AND|OR) ", licence)}


def is_exception(name):
    listed = ", ".join(rows("Licences by exception").values()).split(", ")
    return any(fnmatch(name, each) for each in listed)


def test_each_installed_package_has_an_allowed_licence():
    allowed = ids(rows("Licences of packages"))
    found = {name: stated(each.metadata) for name, each in runtime().items()}
    assert {"torch", "transformers", "diffusers", "psycopg-binary"} <= found.keys()
    others = {name: said for name, said in found.items() if not ids([said]) <= allowed}
    assert {name: said for name, said in others.items() if not is_exception(name)} == {}


def test_the_page_lists_each_package_by_its_licence():
    table = rows("Licences of packages").items()
    listed = {package: licence for licence, names in table for package in names.split(", ")}
    found = {name: stated(each.metadata) for name, each in runtime("ray").items()}
    assert listed == {name: said for name, said in found.items() if not is_exception(name)}


@pytest.mark.parametrize("kind", kinds())
def test_packaged_weights_are_named_with_the_licence_of_their_page(kind):
    folder = weights_file(kind).parent
    packages = [Requirement(line.split(" --hash")[0]).name
                for line in lines(weights_file(kind).read_text())]  # fmt: skip
    page = " ".join((folder / "weights" / "README.md").read_text().split())
    (licence,) = re.findall(r"license (Apache-2\.0|MIT)\b", page)
    table = rows("Weights and fonts")
    files = [str(each.relative_to(ROOT)) for each in folder.glob("*.safetensors")]
    assert packages or files
    for name in [*packages, *files]:
        (row,) = (cells for first, cells in table.items() if f"`{name}`" in first)
        assert row.startswith(f"{licence} "), name


def test_all_weights_of_the_repository_are_named():
    files = {name for _, name in kept_files() if name.endswith((".safetensors", ".ttf", ".otf"))}
    assert files
    assert {name for name in files if f"`{name}`" not in PAGE} == set()
