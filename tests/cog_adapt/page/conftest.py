"""The page in a real browser: Debian's Chromium, asked by Playwright."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from cog_adapt.command import new
from tests.cog_adapt.command.test_kinds import KINDS, SETUP_SECONDS, missing
from tests.cog_adapt.command.test_new import mirror
from tests.cog_adapt.contract.serving import serving

CHROMIUM = Path("/usr/bin/chromium")
PREDICTORS = Path(__file__).parent / "predictors"
ROOT = Path(__file__).parents[3]
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)
IS_WHOLE = os.environ.get("PAGE") == "full"


def pytest_collection_modifyitems(items):
    """Leave what is not marked as short to `make page-test`."""
    folder = Path(__file__).parent
    for item in items:
        if folder in item.path.parents and "browser" in getattr(item, "fixturenames", ()):
            is_short = item.get_closest_marker("short_page") is not None
            if not (is_short or IS_WHOLE):
                item.add_marker(pytest.mark.skip(reason="`make page-test` runs it"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    if not CHROMIUM.exists():
        pytest.skip("no /usr/bin/chromium; .ci/browser installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser) -> Iterator[Callable[..., Page]]:
    """Opens pages; none of them may have thrown, or met the security policy."""
    faults: list[str] = []
    contexts: list[Any] = []

    def open_page(url: str, *, until: str = "run-view form", **options: Any) -> Page:
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.extend(_fault(message.text)))
        page.goto(url)
        page.wait_for_selector(until)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


def _fault(text: str) -> list[str]:
    is_fault = "Content Security Policy" in text or "Trusted" in text
    return [text] if is_fault else []


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Callable[..., Any]:
    """Starts a server in a new folder, with the predictors of these tests in it."""

    def run(predict: str, **options: Any) -> Any:
        folder = tmp_path_factory.mktemp("page")
        for source in PREDICTORS.glob("*.py"):
            shutil.copy(source, folder)
        return serving("mirror", folder, predict=predict, **options)

    return run


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Iterator[Any]:
    """The shipped predictor."""
    folder = tmp_path_factory.mktemp("template")
    for name in ("predict.py", "task.py", "encoder.py", "examples"):
        (folder / name).symlink_to(ROOT / name)
    env = {"WEIGHTS_DIR": str(folder / "weights")}
    with serving("mirror", folder, predict="predict.py:Predictor", env=env) as server:
        yield server


class Project(NamedTuple):
    """A served project of a kind, and the inputs of its example requests by their names."""

    kind: str
    url: str
    requests: dict[str, dict[str, Any]]


@pytest.fixture(scope="session", params=KINDS)
def project(request, tmp_path_factory) -> Iterator[Project]:
    """What `cog-adapt new` writes for each kind whose weights are here, served as it is."""
    kind = request.param
    if lacking := missing(kind):
        pytest.skip(f"{', '.join(lacking)}: not installed; `make kinds` installs it")
    folder = tmp_path_factory.mktemp("project") / kind
    new.write_project(folder, kind)
    offered = json.loads((folder / "examples" / "requests.json").read_text())
    requests = {each["name"]: each["input"] for each in offered if each.get("kind") != "train"}
    with mirror(folder, SETUP_SECONDS) as client:
        yield Project(kind, str(client.base_url), requests)
