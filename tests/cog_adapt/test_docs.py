"""What the package's documents show is true."""

import re
from pathlib import Path
from typing import Any

import pytest

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.server.middleware.access import is_open, need_of
from cog_adapt.server.service.prediction import FINAL
from cog_adapt.server.settings import Settings
from cog_adapt.server.worker.extensions import find_self_testing, read_extra_gauges

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "cog_adapt" / "server"
DOCS = ROOT / "docs"
ARCHITECTURE = (DOCS / "ARCHITECTURE.md").read_text()
WRITTEN = (
    *("ARCHITECTURE", "adapters", "operations", "predictor-protocol", "security"),
    *("self-test", "settings", "supervision", "transcript", "workers"),
)
NO_WORDS = re.compile(r"\b(desks?|lanes?|clinics?|shel(f|ves)|journals?|told|wish(es)?)\b", re.I)


OTHERS = ("OTEL_", "COG_TRACE", "AWS_", "AZURE_", "GOOGLE_")  # of packages that read them


def section(title):
    """The lines of a section, its heading not."""
    (text,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", ARCHITECTURE, re.DOTALL | re.MULTILINE)
    return text.strip().splitlines()


def diagram(title):
    """The code block of a section."""
    (text,) = re.findall(r"```\n(.*?)```", "\n".join(section(title)), re.DOTALL)
    return text


def test_the_variables_of_the_documents_are_settings():
    """A word in capitals with an underscore is a variable somewhere."""
    known = {name.upper() for name in Settings.model_fields} | {"SSL_CERT_FILE", "COG_WEIGHTS"}
    known |= {name.upper() for name in RunnerSettings.model_fields}
    for path in ("docs/operations.md", "docs/ARCHITECTURE.md", "docs/adapters.md", "CHANGELOG.md"):
        named = re.findall(r"`([A-Z]+_[A-Z_]+)(?:=[^`]*)?`", (ROOT / path).read_text())
        assert {name for name in named if not name.startswith(OTHERS)} <= known


def test_the_architecture_names_every_room_and_top_file_of_the_server():
    modules = {path.name for path in SERVER.glob("*.py")} - {"__init__.py"}
    packages = {f"{path.parent.name}/" for path in SERVER.glob("*/__init__.py")}
    assert {name for name in modules | packages if f"`{name}`" not in ARCHITECTURE} == set()


def test_the_api_of_the_page_names_the_scope_of_each_route():
    text = (DOCS / "page-api.md").read_text()
    rows = re.findall(r"^\| `([A-Z]+) (/[^` ?]*)`[^|]*\| (\w+)", text, re.MULTILINE)
    assert len(rows) > 15
    for method, path, scope in rows:
        asked = {"method": method, "path": path, "headers": [(b"accept", b"text/html")]}
        assert is_open(asked) is (scope == "none"), path
        assert scope in ("none", need_of(method, path)), path


def test_a_diagram_shows_the_processes_and_their_threads():
    shown = diagram("Processes and threads")
    threads = ("event loop", "records", "records-reader", "run", "reader", "connection writer")
    for name in ("front process", "worker", *threads, "download", "model"):
        assert re.search(rf"\b{name}\b", shown), name


@pytest.mark.parametrize("state", ["starting", "processing", *sorted(FINAL)])
def test_a_diagram_shows_every_state_of_a_prediction(state):
    assert re.search(rf"\b{state}\b", diagram("States of a prediction"))


def test_one_request_has_at_most_eighty_lines():
    assert 20 < len(section("One request")) <= 80


def test_the_documents_are_short():
    for name in ("ARCHITECTURE", "operations"):
        assert len((DOCS / f"{name}.md").read_text().splitlines()) <= 120


@pytest.mark.parametrize("path", ["README.md", *(f"docs/{name}.md" for name in WRITTEN)])
def test_the_documents_have_the_words_of_the_field(path):
    text = (ROOT / path).read_text()
    assert NO_WORDS.search(text) is None
    assert re.search(r"model process", text, re.I) is None


@pytest.mark.parametrize("path", ["README.md", *(f"docs/{name}.md" for name in WRITTEN)])
def test_the_files_of_the_package_that_the_documents_name_are_there(path):
    text = (ROOT / path).read_text()
    named = re.findall(r"\b(?:gradient_check|cog_adapt|tests|docs)/[\w./-]*[\w/]", text)
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_a_result_that_a_document_names_is_there_or_said_to_be_absent():
    for path in DOCS.glob("*.md"):
        text = path.read_text()
        for name in re.findall(r"\bresults/([\w-]+\.\w+)", text):
            is_there = (DOCS / "results" / name).exists()
            assert is_there or "does not exist yet" in text, f"{path}: {name}"


def test_the_example_of_the_predictor_protocol_offers_what_it_says():
    text = (DOCS / "predictor-protocol.md").read_text()
    (example,) = re.findall(r"## An example\n\n```python\n(.*?)```", text, re.DOTALL)
    scope: dict[Any, Any] = {}
    exec(example, scope)
    predictor: Any = scope["Predictor"]()
    predictor.setup()
    found: Any = find_self_testing(predictor)
    assert found is predictor
    assert predictor.self_test_report.to_json() == {"passed": True}
    assert read_extra_gauges(predictor).values == {"table_rows": 2.0}
    assert predictor.run("two") == 2


def test_the_page_of_rooms_names_every_room_and_no_file_that_is_not_there():
    page = (DOCS / "rooms.md").read_text()
    for package in (ROOT / "cog_adapt" / "runner", ROOT / "gradient_check"):
        rooms = {path.parent.name for path in package.glob("*/__init__.py")} - {
            "gradients",
            "tests",
        }
        assert {room for room in rooms if f"{room}/" not in page} == set()
    folders = {"runner": "cog_adapt/runner", "server": "cog_adapt/server"}
    named = re.findall(r"`((?:runner|server|gradient_check)/[\w/]+(?:\.py)?)`", page)
    assert len(named) >= 10
    for name in named:
        top, _, rest = name.partition("/")
        assert (ROOT / folders.get(top, top) / rest).exists(), name
    assert len(page.splitlines()) <= 60


def test_the_session_with_curl_fails_only_where_it_shows_refusals():
    sections = re.split(r"^## ", (DOCS / "transcript.md").read_text(), flags=re.MULTILINE)
    failing = {each.splitlines()[0] for each in sections if '"status":"failed' in each}

    assert failing == {"Refusals", "Repeated requests", "API keys"}


def test_the_index_has_every_page_and_no_other():
    index = (DOCS / "README.md").read_text()
    named = set(re.findall(r"\]\(([\w-]+\.md)\)", index))
    pages = {path.name for path in DOCS.glob("*.md")} - {"README.md"}
    assert named == pages
