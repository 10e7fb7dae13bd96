"""History, adapters, server and self-test as a reader sees them, wide and narrow."""

import re

import pytest
from playwright.sync_api import expect

from tests.cog_adapt.page.seen import expect_seen

EXAMPLES = [{"text": "Where is it?", "label": "delivery"}, {"text": "Money!", "label": "refund"}]
ROW = {"age": 66.0, "bmi": 26.2, "bp": 114.0, "tc": 255.0, "ldl": 185.0}
PIXEL = "data:image/gif;base64,R0lGODlhAQABAIAAAP8AAP///yH5BAAAAAAALAAAAAABAAEAAAICRAEAOw=="
PAUSES_MS = 5000  # the page asks every two seconds
SHOW = """state => {
  Object.defineProperty(document, 'visibilityState', {value: state, configurable: true});
  Object.defineProperty(document, 'hidden', {value: state === 'hidden', configurable: true});
  document.dispatchEvent(new Event('visibilitychange'));
}"""
WIDTHS = pytest.mark.parametrize("width", [380, 1280])


@pytest.fixture(scope="module")
def server(start):
    inputs = {
        "of-a-text": {"texts": ["Where is my parcel?"]},
        "of-a-picture": {"images": [PIXEL]},
        "of-a-row": {"rows": [ROW]},
        "taught": {"texts": ["Where is my parcel?"], "examples": EXAMPLES, "steps": 3},
        "failed": {"texts": ["out of order"]},
    }
    with start("views.py:Predictor", train="views.py:train") as server:
        for name, each in inputs.items():
            server.put(f"/predictions/{name}", {"input": each})
        server.put("/trainings/trained", {"input": {"examples": EXAMPLES}})
        yield server


@pytest.fixture
def listed(visit, server):
    """Opens a list, and returns how one of its entries is found and what it says."""

    def open_list(kind, width):
        viewport = {"width": width, "height": 900}
        page = visit(f"{server.url}#/history/{kind}", until=".entry", viewport=viewport)

        def seen(name, *words):
            entry = page.locator(".entry", has=page.locator(f"a[href$='/{name}']"))
            entry.scroll_into_view_if_needed()
            for each in words:
                expect_seen(entry.get_by_text(each, exact=True).first)
            return entry

        return seen

    return open_list


@WIDTHS
def test_what_was_asked_and_answered_is_seen_with_its_status_and_age(listed, width):
    seen = listed("predictions", width)
    entry = seen("of-a-text", "Where is my parcel?", "delivery", "73%", "succeeded")
    expect_seen(entry.locator("time"))
    expect_seen(seen("of-a-picture", "delivery").get_by_role("img", name="picture"))
    seen("of-a-row", "age 66 · bmi 26.2 · bp 114 · ldl 185 · 1 more", "124.8")
    seen("taught", "was refund", "taught 2 examples of delivery, refund", "steps 3")
    seen("failed", "The text is out of order", "failed")
    expect(entry).not_to_contain_text("{")


@WIDTHS
def test_a_training_says_what_it_was_taught_and_what_it_has_learnt(listed, width):
    learnt = "held-out score 0.50 → 0.75 · loss 1.25 → 0.50 in 2 steps"
    listed("trainings", width)("trained", "Taught 2 examples of delivery, refund", learnt)


def test_the_header_of_a_narrow_screen_is_low_and_whole(visit, server):
    page = visit(server.url, viewport={"width": 380, "height": 800})
    header = page.locator("header")
    assert header.bounding_box()["height"] <= 64
    for each in [*header.get_by_role("link").all(), header.get_by_role("button")]:
        expect_seen(each)


@WIDTHS
def test_six_numbers_with_units_come_first_and_the_rest_is_folded(visit, server, width):
    viewport = {"width": width, "height": 800}
    page = visit(f"{server.url}#/server", until=".figure", viewport=viewport)
    figures = page.locator(".figure")
    expect(figures).to_have_count(6)
    for each in figures.all():
        expect_seen(each)
    for words in ("of 1,000 requests at most", "slots", "p99", "model", "for records", "up "):
        expect(page.locator(".six")).to_contain_text(words)
    expect(page.locator("server-view table")).to_be_hidden()
    page.get_by_text("Workers", exact=True).click()
    row = page.locator("server-view tbody tr").first
    expect(row).to_contain_text(re.compile(r"predictions\s*ready\s*0 of \d"))


@WIDTHS
def test_a_model_process_that_failed_its_setup_is_named_with_its_reason(visit, start, width):
    two = {"MODEL_PROCESSES": "auto", "CUDA_VISIBLE_DEVICES": "5,6"}
    with start("placed.py:Predictor", env=two) as server:
        viewport = {"width": width, "height": 900}
        page = visit(f"{server.url}#/server", until=".figure", viewport=viewport)
        summary = page.locator("details.workers summary")
        expect(summary).to_have_text("Workers 1 of 2 serve")
        last = page.locator(".figure").last.bounding_box()
        assert summary.bounding_box()["y"] > last["y"] + last["height"]
        why = "worker 1 on device 6: setup failed: RuntimeError: no weights on this card"
        for seen in (summary, page.get_by_text(why)):
            seen.scroll_into_view_if_needed()
            expect_seen(seen)
        expect(page.get_by_text("no weights on this card")).to_have_count(1)
        for place, states in enumerate(("ready", "setup failed")):
            row = page.locator("server-view tbody tr").nth(place)
            expect(row.get_by_role("rowheader").first).to_have_text(
                f"{place} on device {place + 5}"
            )
            expect(row).to_contain_text(states)
            state = row.get_by_text(states)
            state.scroll_into_view_if_needed()
            expect_seen(state)


def test_the_server_is_not_asked_while_nobody_looks(visit, server):
    page = visit(f"{server.url}#/server", until=".figure")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_request("**/metrics"):
        pass  # while it is looked at, it is asked again
    page.evaluate(SHOW, "hidden")
    asked.clear()
    page.wait_for_timeout(PAUSES_MS)
    assert asked == []
    with page.expect_request("**/metrics"):
        page.evaluate(SHOW, "visible")
    page.get_by_role("link", name="Self-test").click()
    page.wait_for_selector("selftest-view .panel")
    asked.clear()
    page.wait_for_timeout(PAUSES_MS)
    assert asked == []


@pytest.fixture(scope="module")
def adapted(template):
    """The shipped predictor with two adapters, one of them named and shared."""
    pytest.importorskip("task", reason="the shipped task is not here")
    rows = [{"text": f"{text} {n}", "label": label} for n in range(4) for text, label in TOLD]
    shown = {"texts": ["My parcel is late."], "examples": rows}
    named = template.output(**shown, method="head", seed=1)["adapter"]
    template.output(**shown | {"examples": _turned(rows)}, method="head", steps=40, seed=2)
    template.request("PATCH", f"/adapters/{named}", {"name": "support", "shared": ["ada"]})
    return template


TOLD = (("My parcel has not come", "delivery"), ("Give me my money back", "refund"))


def _turned(rows):
    """The same texts with the other's label: an adapter of them answers the opposite."""
    other = {"delivery": "refund", "refund": "delivery"}
    return [{**row, "label": other[row["label"]]} for row in rows]


@WIDTHS
def test_an_adapter_says_what_it_was_taught_and_is_downloaded_for_peft(visit, adapted, width):
    viewport = {"width": width, "height": 900}
    page = visit(f"{adapted.url}#/history/adapters", until=".adapter", viewport=viewport)
    card = page.locator(".adapter", has_text="support@v1")
    card.scroll_into_view_if_needed()
    for words in ("8 examples, 2 labels", "delivery, refund", "method head", "shared with ada"):
        expect_seen(card.get_by_text(words, exact=True))
    expect_seen(card.get_by_text(re.compile("expected accuracy|was not estimated")))
    for name in ("Use", "Download", "PEFT", "Remove"):
        expect_seen(card.get_by_text(name, exact=True))
    with page.expect_download() as download:
        card.get_by_role("button", name="Download support@v1 for PEFT").click()
    assert download.value.suggested_filename.endswith(".zip")


@WIDTHS
def test_comparing_has_a_column_of_the_base_and_marks_what_differs(visit, adapted, width):
    viewport = {"width": width, "height": 900}
    page = visit(f"{adapted.url}#/history/adapters", until=".adapter", viewport=viewport)
    for each in page.locator(".adapter input[type=checkbox]").all():
        each.check()
    page.fill("#compared", "My parcel has not come")
    page.get_by_role("button", name="Compare", exact=True).click()
    at_a_glance = page.get_by_text("1 of 1 input has different answers.")
    at_a_glance.evaluate("each => each.scrollIntoView()")
    expect_seen(at_a_glance)
    expect_seen(page.get_by_role("columnheader", name="the base"))
    cells = page.locator("adapter-compare td")
    expect(cells).to_have_count(3)
    for each in cells.all():
        expect_seen(each)
    expect_seen(page.locator("adapter-compare td.differs strong").first)


@WIDTHS
def test_the_self_test_says_its_verdict_first_and_what_is_not_proved(visit, template, width):
    viewport = {"width": width, "height": 900}
    page = visit(f"{template.url}#/self-test", until=".verdict", viewport=viewport)
    expect_seen(page.get_by_text("Gradients flow", exact=True))
    expect_seen(page.get_by_text(re.compile(r"All \d+ checks passed in")))
    expect_seen(page.get_by_text(re.compile("the gradient exists, but its effect")))
    expect(page.locator("selftest-view table").first).to_be_hidden()
    page.locator(".checks summary").first.click()
    expect(page.locator("selftest-view table").first).to_be_visible()
