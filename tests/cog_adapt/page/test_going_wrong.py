"""The page where something is wrong: no key, a wrong one, no server, a full queue, a cut graph."""

import hashlib

import pytest
from playwright.sync_api import expect

from tests.cog_adapt.contract.serving import stop
from tests.cog_adapt.page.acts import run, until_ended
from tests.cog_adapt.page.restart import take_away, wait_until_ready

ACTIONS = "actions.py:Predictor"


@pytest.fixture(scope="module")
def locked(start, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"ada predict {hashlib.sha256(b'right-key').hexdigest()}\n")
    with start(ACTIONS, env={"API_KEYS_FILE": str(keys)}, until=None) as server:
        yield server


@pytest.fixture(scope="module")
def narrow(start):
    with start(ACTIONS, env={"MAX_QUEUE": "1"}) as server:
        yield server


@pytest.fixture(scope="module")
def cut(start):
    with start("cut.py:Predictor", until="READY") as server:
        yield server


@pytest.mark.short_page
def test_a_key_is_asked_for_once_and_again_where_it_is_wrong(visit, locked):
    wait_until_ready(locked, "right-key")
    page = visit(locked.url, until="dialog[open]")
    expect(page.get_by_role("heading", name="This server needs a key")).to_be_visible()
    page.get_by_label("API key").fill("wrong-key")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="The key is wrong")).to_be_visible()
    page.get_by_label("API key").fill("right-key")
    page.keyboard.press("Enter")
    page.wait_for_selector("run-view form")
    page.fill("#input-text", "with a key")
    run(page)
    until_ended(page, "succeeded")
    page.reload()
    page.wait_for_selector("run-view form")
    expect(page.locator("dialog[open]")).to_have_count(0)
    assert "right-key" not in page.content()


def test_a_server_that_is_gone_is_found_again_and_nothing_typed_is_lost(visit, start):
    with start(ACTIONS) as server:
        page = visit(server.url)
        page.fill("#input-text", "typed before")
        bring_back = take_away(server)
        run(page)
        expect(page.locator("server-banner")).to_contain_text("does not answer")
        page.fill("#input-text", "typed meanwhile")
        bring_back()
        expect(page.locator("server-banner")).to_contain_text("is back")
        until_ended(page, "succeeded")
        expect(page.locator("output-value pre")).to_have_text("typed before")
        expect(page.locator("#input-text")).to_have_value("typed meanwhile")
        stop(server.process)


def test_a_full_queue_is_said_and_tried_again(visit, narrow):
    with narrow.beginning():
        first = narrow.start(action="sleep", seconds=600)
    second = narrow.start(action="sleep", seconds=600)
    page = visit(narrow.url)
    page.fill("#input-text", "patient")
    run(page)
    until_ended(page, "refused")
    expect(page.get_by_role("alert")).to_contain_text("The server cannot take it now")
    narrow.cancel(first)
    narrow.cancel(second)
    narrow.until_idle()
    page.get_by_role("button", name="Try again").click()
    until_ended(page, "succeeded")


def test_the_place_in_the_queue_is_seen(visit, narrow):
    with narrow.beginning():
        first = narrow.start(action="sleep", seconds=600)
    page = visit(narrow.url)
    run(page)
    expect(page.locator("[data-phase=queued]")).to_contain_text("place 1 of the queue")
    narrow.cancel(first)
    until_ended(page, "succeeded")


def test_a_failing_self_test_is_seen_with_the_line_that_cuts_the_graph(visit, cut):
    page = visit(f"{cut.url}/#/self-test", until="selftest-view .verdict")
    expect(page.get_by_text("Gradients do not flow")).to_be_visible()
    expect(page.locator("selftest-view")).to_contain_text("cut.py")
    expect(page.locator("selftest-view")).to_contain_text(".detach()")
    page.get_by_role("button", name="Run it again").click()
    expect(page.get_by_text("Gradients do not flow")).to_be_visible()


def test_a_model_that_fails_is_said_with_its_error_and_logs(visit, narrow):
    page = visit(narrow.url)
    page.fill("#input-action", "fail")
    page.fill("#input-text", "out of order")
    run(page)
    until_ended(page, "failed")
    expect(page.get_by_role("alert")).to_contain_text("Out of order")
    expect(page.locator("log-view pre")).to_contain_text("about to fail")
