"""A user's way through the page with each kind of model: ask, teach, look, look again, compare."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.cog_adapt.page.acts import drop, file_of, paste, run, until_ended
from tests.cog_adapt.page.seen import expect_seen

WIDTHS = pytest.mark.parametrize("width", [1280, 380])
ANSWERS: dict[str, tuple[str, Any]] = {
    "text": (".answer.is-changed .score.is-answer .score-name, .answer-label", "access"),
    "image": (".answer-label", "boot"),
    "tabular": (".answer-number", "140.2"),
    "lm": (".message.is-assistant .text", "dinner | Sunday"),
    "speech": (".answer-text", "Sort the LoRA adapter."),
    "diffusion": ("output-value figcaption", re.compile("image/png")),
}
"""Where the answer stands, and the right one."""


def csv(rows):
    """Rows as a table that people have."""
    names = list(rows[0])
    lines = [[json.dumps(each[name], ensure_ascii=False) for name in names] for each in rows]
    return "\n".join([",".join(names), *(",".join(each) for each in lines)])


def ask_texts(page, taught, folder):
    page.fill("#input-text", "I forgot my password and the reset mail never comes.")


def ask_files(page, taught, folder):
    (asked,) = taught.get("images") or taught["sounds"]
    drop(page, "files-field .drop", file_of(folder, "asked", asked))


def ask_rows(page, taught, folder):
    paste(page, "rows-field textarea", csv(taught["rows"]))


def ask_prompt(page, taught, folder):
    page.fill("#input-prompt", taught["prompt"])


def teach_by_paste(page, taught, folder):
    paste(page, "#input-examples", csv(taught["examples"]))


def teach_by_files(page, taught, folder):
    rows = taught["examples"]
    files = [file_of(folder, str(place), each["input"]) for place, each in enumerate(rows)]
    drop(page, "examples-editor .drop", *files)
    for place, each in enumerate(rows, start=1):
        (target,) = each.keys() - {"input"}
        page.get_by_label(f"{target} of row {place}").fill(each[target])
        page.keyboard.press("Tab")


def teach_by_names(page, taught, folder):
    """Drop pictures that are named after their letters."""
    rows = taught["examples"]
    drop(page, "examples-editor .drop", *(file_of(folder, r["caption"], r["image"]) for r in rows))


ASKS = {
    "text": ask_texts,
    "image": ask_files,
    "tabular": ask_rows,
    "lm": ask_prompt,
    "speech": ask_files,
    "diffusion": ask_prompt,
}
TEACHES = {"image": teach_by_files, "speech": teach_by_files, "diffusion": teach_by_names}

PLACES = {"diffusion": ("examples-grid .tile", "output-value")}
"""Where pictures are shown that are not asked about."""


def taught_request(project):
    """The first of the project's example requests that teaches."""
    return next(each for each in project.requests.values() if each.get("examples"))


def settle(page, **settings):
    """Fill in settings, which are folded until then."""
    for name, value in settings.items():
        field = page.locator(f"#input-{name}")
        if not field.is_visible():
            page.locator("#predict details.settings summary").click()
        field.fill(str(value))


def asked_and_taught(page, project, folder, seed):
    """Fill in the form as a user does, and run it; another seed is another adaptation."""
    taught = taught_request(project)
    ASKS[project.kind](page, taught, folder)
    TEACHES.get(project.kind, teach_by_paste)(page, taught, folder)
    if project.kind == "text":
        page.select_option("#input-method", label="head: the last layer alone")
    settle(page, **{name: taught[name] for name in ("steps", "max_tokens") if name in taught})
    if project.kind != "lm":  # whose seed is of the answer
        settle(page, seed=seed)
    run(page)
    until_ended(page, "succeeded")


@WIDTHS
def test_a_user_teaches_the_model_and_sees_its_answer(visit, project, tmp_path, width):
    page = visit(project.url, viewport={"width": width, "height": 800})
    asked_and_taught(page, project, tmp_path, seed=width + 7)
    where, answer = ANSWERS[project.kind]
    shown = page.locator(where).first
    expect_seen(shown)
    expect(shown).to_have_text(answer)
    if project.kind == "lm":
        expect_seen(page.locator(".message.is-user"))
        was = page.locator(".message .was .answer-text")
        expect(was).not_to_have_text(re.compile(f"^({re.escape(answer)}|)$"))
        expect_seen(was)
    elif project.kind == "diffusion":
        expect_seen(page.locator("output-value img"))
        assert page.locator("output-value ol").count() == 0  # one picture needs no number
    else:
        expect_seen(page.locator(".glance"))
        expect_seen(page.locator(".asked").first)
    assert "InputError" not in page.locator("body").inner_text()


def test_pictures_and_sounds_are_shown_where_they_are_asked_taught_and_answered(
    visit, project, tmp_path
):
    if project.kind not in TEACHES:
        pytest.skip("this kind takes no files")
    page = visit(project.url, viewport={"width": 1280, "height": 1200})
    asked_and_taught(page, project, tmp_path, seed=1)
    shown = "audio" if project.kind == "speech" else "img"
    for place in PLACES.get(project.kind, ("files-field .tile", "examples-grid .tile", ".asked")):
        first = page.locator(f"{place} {shown}").first
        first.scroll_into_view_if_needed()
        expect_seen(first)
    assert page.locator("examples-grid .tile").count() == len(taught_request(project)["examples"])
    assert page.evaluate("() => [...document.images].every(each => each.naturalWidth > 0)")
    sounds = "() => [...document.querySelectorAll('audio')].every(each => each.duration > 0.5)"
    page.wait_for_function(sounds)


def test_history_adapters_and_comparison_show_what_was_asked_and_taught(visit, project, tmp_path):
    page = visit(project.url, viewport={"width": 1280, "height": 1000})
    asked_and_taught(page, project, tmp_path, seed=1)
    page.get_by_role("link", name="History").click()
    examples = len(taught_request(project)["examples"])
    # the page asks a language model the same untaught, and that is a newer entry
    entry = page.locator(".entry", has_text=f"taught {examples} examples").first
    _, answer = ANSWERS[project.kind]
    is_picture = project.kind == "diffusion"
    expect_seen(entry.locator("img") if is_picture else entry.get_by_text(answer, exact=True))
    expect_seen(entry.get_by_text(f"taught {examples} examples").first)
    expect(entry).not_to_contain_text("{")
    page.get_by_role("link", name="Adapters").click()
    card = page.locator(".adapter").first
    expect_seen(card.get_by_text(f"{examples} examples").first)
    expect_seen(card.get_by_role("button", name="for PEFT"))
    card.get_by_role("checkbox").check()
    if project.kind == "text":
        page.fill("#compared", "I forgot my password and the reset mail never comes.")
    page.get_by_role("button", name="Compare", exact=True).click()
    cells = page.locator("adapter-compare tbody tr").first.locator("td")
    expect(cells).to_have_count(2)
    expect(cells.last).to_contain_text(answer)
    page.locator("adapter-compare table").scroll_into_view_if_needed()
    expect_seen(page.get_by_role("columnheader", name="the base"))
    for cell in cells.all():
        expect_seen(cell.locator("img") if is_picture else cell)


@WIDTHS
def test_a_reply_goes_on_with_the_chat(visit, project, width):
    if project.kind != "lm":
        pytest.skip("this kind has no chat")
    page = visit(project.url, viewport={"width": width, "height": 800})
    page.get_by_role("button", name="Ask without examples").click()
    run(page)
    until_ended(page, "succeeded")
    said = page.locator(".message.is-assistant .text").inner_text()
    expect_seen(page.get_by_role("button", name="Reply"))
    page.get_by_role("button", name="Reply").click()
    typed = page.get_by_label("Message 3", exact=True)
    expect(typed).to_be_focused()
    expect_seen(typed)
    page.keyboard.type("And who comes?")
    with page.expect_request(lambda request: request.method == "PUT") as sent:
        page.keyboard.press("Control+Enter")
    until_ended(page, "succeeded")
    assert sent.value.post_data_json["input"]["messages"] == [
        {"role": "user", "content": "The dinner is on Sunday."},
        {"role": "assistant", "content": said},
        {"role": "user", "content": "And who comes?"},
    ]
    expect(page.locator(".message.is-user").last).to_have_text("And who comes?")
    expect_seen(page.locator(".message.is-assistant .text"))
