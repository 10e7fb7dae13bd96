"""The page `docs/when-it-goes-wrong.md` has each status, each class and words of the source."""

import inspect
import re
from pathlib import Path

from cog_adapt.runner import errors as of_runner
from cog_adapt.server import errors as of_server
from cog_adapt.server.api.responses import STATUSES
from cog_adapt.server.egress import addresses, client
from cog_adapt.server.schema import problems
from cog_adapt.server.worker import outputs, uploads

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "when-it-goes-wrong.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| status", "| class"))
]
MODULES = (of_runner, of_server, addresses, client, problems, outputs, uploads)
BASES = {"ServerError", "RequestError", "RunnerError", "BodyError"}
"""Classes that only their subclasses are raised of."""


def classes():
    """Return the errors that a caller or an operator can meet."""
    found = {
        name
        for module in MODULES
        for name, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, Exception) and each.__module__.startswith(("cog_adapt", "gradient_"))
    }
    return {name for name in found - BASES if not name.startswith("_")}


def sources():
    """Return the text of the packages, its string literals joined."""
    paths = [*(ROOT / "cog_adapt").rglob("*.py"), *(ROOT / "gradient_check").rglob("*.py")]
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text() for path in paths))


def test_each_class_of_error_has_a_row():
    named = {name for row in ROWS for cell in row[:2] for name in re.findall(r"`(\w+)`", cell)}
    assert classes() - named == set()


def test_each_refusal_stands_beside_its_status():
    shown = {(row[0], row[1].strip("`")) for row in ROWS if row[0].isdigit()}
    raised = {(str(status), kind.__name__) for kind, status in STATUSES.items()}
    raised.add(("422", "InvalidInputs"))
    assert raised - shown == set()
    assert {row for row in shown if row[1]} - raised == set()


def test_each_status_of_the_middleware_has_a_row():
    folder = ROOT / "cog_adapt" / "server" / "middleware"
    text = "\n".join(path.read_text() for path in folder.rglob("*.py"))
    sent = set(re.findall(r"in_(?:json|text)\(\s*([45]\d\d)\b|^ +([45]\d\d),$", text, re.MULTILINE))
    statuses = {first or second for first, second in sent}
    assert statuses
    assert statuses - {row[0] for row in ROWS} == set()


def test_the_words_to_search_for_are_those_of_the_messages():
    text = sources()
    words = [row[2 if row[0].isdigit() else 1].strip("`") for row in ROWS]
    assert [each for each in words if each and each not in text] == []
