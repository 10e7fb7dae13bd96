"""The code that the page copies is run, and does what the page did."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from tests.cog_adapt.page.acts import run, until_ended
from tests.cog_adapt.page.restart import wait_until_ready

KEY = "a key of three words"
TEXT = "it's \"odd\": $HOME `id` \\n \\ %s {x} ${y}\nEND\n\ttab é 😀 \u2028 'END' <b>&amp;"
COMMANDS = {
    "curl": ["bash"],
    "Python": [sys.executable, "-"],
    "JavaScript": ["node", "--input-type=module", "-"],
}
SECONDS = 60


@pytest.fixture(scope="module")
def server(start, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"ada predict,train {hashlib.sha256(KEY.encode()).hexdigest()}\n")
    env = {"API_KEYS_FILE": str(keys)}
    with start("inputs.py:Predictor", train="train.py:train", env=env, until=None) as server:
        wait_until_ready(server, KEY)
        yield server


@pytest.fixture
def keyed(visit, server):
    """Opens a page that has the key, and may use the clipboard."""

    def open_page(view=""):
        permissions = ["clipboard-read", "clipboard-write"]
        page = visit(f"{server.url}/{view}", until="dialog[open]", permissions=permissions)
        page.get_by_label("API key").fill(KEY)
        page.keyboard.press("Enter")
        page.locator("run-view form >> visible=true").wait_for()
        return page

    return open_page


def copied(page, language):
    """What is in the clipboard after a click."""
    page.evaluate("navigator.clipboard.writeText('')")
    page.get_by_role("button", name=language, exact=True).locator("visible=true").click()
    expect(page.get_by_text("Copied.").locator("visible=true")).to_be_visible()
    return page.evaluate("navigator.clipboard.readText()")


def answer_of(language, code):
    """What the code prints, as the JSON that it is."""
    command = COMMANDS[language]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    ended = subprocess.run(
        command,
        input=code,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**os.environ, "API_KEY": KEY, "PYTHONIOENCODING": "utf-8"},
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("language", COMMANDS)
def test_a_request_of_the_form_does_the_same_as_code(keyed, server, language):
    page = keyed()
    values = {
        "s": TEXT,
        "n": 1,
        "b": True,
        "mapping": {"a": [None, -1.5e-7, {"b": []}]},
        "tags": [],
    }
    page.evaluate("values => document.querySelector('run-view').set(values)", values)
    run(page)
    until_ended(page, "succeeded")
    page.locator("output-value").get_by_role("button", name="JSON").click()
    shown = json.loads(page.locator("output-value pre").inner_text())
    page.get_by_role("button", name="JSON", exact=True).first.click()
    code = copied(page, language)
    assert KEY not in code
    answer = answer_of(language, code)
    assert answer["status"] == "succeeded"
    assert answer["output"] == shown
    assert shown["s"] == ["str", TEXT]


@pytest.mark.parametrize("language", COMMANDS)
def test_a_training_of_the_history_does_the_same_as_code(keyed, server, language):
    page = keyed("#/train")
    page.evaluate("document.querySelector('#train run-view').set({name: 'it is \"mine\"'})")
    run(page)
    until_ended(page, "succeeded")
    page.get_by_role("link", name="History").click()
    page.get_by_role("link", name="Trainings").click()
    page.locator("history-view .entry a").first.click()
    answer = answer_of(language, copied(page, language))
    assert answer["status"] == "succeeded"
    content = answer["output"]["weights"].partition(",")[2]
    assert base64.b64decode(content) == b'it is "mine"'


@pytest.mark.parametrize("language", COMMANDS)
def test_a_failure_is_seen_in_what_the_code_prints(keyed, server, language):
    page = keyed("#/train")
    page.evaluate("document.querySelector('#train run-view').set({name: 'x', fail: true})")
    page.locator("#train").get_by_role("button", name="JSON", exact=True).click()
    answer = answer_of(language, copied(page, language))
    assert answer["status"] == "failed"
    assert "boom" in answer["error"]


@pytest.mark.parametrize("language", COMMANDS)
def test_a_secret_is_starred_out_of_the_code(keyed, language):
    page = keyed()
    page.evaluate("document.querySelector('run-view').set({s: 'x', secret: 'not to be shown'})")
    page.get_by_role("button", name="JSON", exact=True).click()
    code = copied(page, language)
    assert "not to be shown" not in code
    assert "**********" in code
    expect(page.locator("copy-as >> visible=true")).to_contain_text("Secrets are starred out")
