"""What a language model reads."""

import pytest

from cog_adapt.lm.prompts import Prompts, example_of
from cog_adapt.runner.data.examples import Example, parse_examples
from cog_adapt.runner.errors import InputError
from tests.cog_adapt.lm.tiny import tokenizer

CHAT, PLAIN = tokenizer(), tokenizer(chat=False)


def read(input, with_template=True, most=100):
    used = CHAT if with_template else PLAIN
    return used.decode(Prompts(used, most).tokens(input))


def test_a_text_is_a_users_message_where_there_is_a_template():
    assert read("hello") == "<|user|>hello<|end|><|assistant|>"
    assert read("hello", with_template=False) == "hello"


def test_messages_go_through_the_template():
    chat = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    assert read(chat) == "<|system|>be brief<|end|><|user|>hi<|end|><|assistant|>"


def test_a_raw_text_is_read_as_it_is_and_an_empty_one_as_the_end_of_another():
    assert read({"text": "Once"}) == "Once"
    assert read({"text": ""}) == "<|end|>"


@pytest.mark.parametrize("input", ["", "  ", [], 3, None, [{"role": "user"}], ["hi"], {"a": 1}])
def test_another_input_is_refused_with_what_to_send(input):
    with pytest.raises(InputError, match="text|role"):
        read(input)


def test_an_answer_ends_with_the_token_that_ends_it():
    tokens = Prompts(CHAT, 100).answer("fine")
    assert CHAT.decode(tokens) == "fine<|end|>"
    for wrong in ("", None, 3):
        with pytest.raises(InputError, match="is no text, or empty"):
            Prompts(CHAT, 100).answer(wrong)


def test_a_text_that_is_too_long_is_refused_with_the_limit():
    with pytest.raises(InputError, match="has 9 tokens; at most 8 fit"):
        Prompts(PLAIN, 8).tokens({"text": "<|end|>" * 9})


def test_a_text_that_no_tokens_could_hold_is_refused_before_any_are_made(monkeypatch):
    prompts = Prompts(CHAT, 8)
    huge = "x" * 10**6
    monkeypatch.setattr(type(CHAT), "__call__", None)  # to make tokens would fail
    monkeypatch.setattr(type(CHAT), "apply_chat_template", None)
    many = [{"role": "user", "content": ""}] * 10**4
    talk = [[{"role": "user", "content": huge}], [{"role": huge, "content": "x"}], many]
    for long in ({"text": huge}, huge, *talk):
        with pytest.raises(InputError, match="characters; more than .* Send a shorter one"):
            prompts.tokens(long)
    with pytest.raises(InputError, match="1000000 characters"):
        prompts.answer(huge)


@pytest.mark.parametrize("of", ["text", "messages", "answer"])
def test_of_a_text_with_too_many_tokens_the_beginning_alone_is_tokenized(monkeypatch, of):
    prompts, given = Prompts(CHAT, 8), []
    call = type(CHAT).__call__

    def note(self, text, **more):
        given.append(len(text))
        return call(self, text, **more)

    monkeypatch.setattr(type(CHAT), "__call__", note)
    text = "<|end|>" * 10
    read = prompts.answer if of == "answer" else prompts.tokens
    with pytest.raises(InputError, match="tokens; at most 8 fit"):
        read({"text": text} if of == "text" else text)
    assert given == [64]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"prompt": "a", "completion": "b"}, Example("a", "b")),
        ({"Prompt": "a", "Completion": "b"}, Example("a", "b")),
        ({"input": "a", "target": "b"}, Example("a", "b")),
        ({"text": "all of it"}, Example({"text": ""}, "all of it")),
        (
            {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
            Example([{"role": "user", "content": "a"}], "b"),
        ),
    ],
)
def test_rows_of_several_forms_are_examples(row, expected):
    assert example_of(row) == expected


def test_messages_that_end_with_no_answer_are_refused():
    with pytest.raises(InputError, match="must end with one of the role 'assistant'"):
        example_of({"messages": [{"role": "user", "content": "a"}]})


def test_columns_that_nobody_reads_are_named():
    found = parse_examples([{"prompt": "a", "completion": "b", "id": 3}], example_of)
    assert "id" in " ".join(found.warnings)
    assert "prompt" not in " ".join(found.warnings)


def test_a_long_text_is_tokenized_until_it_has_too_many_tokens(monkeypatch):
    prompts, given = Prompts(CHAT, 6_000), []
    call = type(CHAT).__call__

    def note(self, text, **more):
        given.append(len(text))
        return call(self, text, **more)

    monkeypatch.setattr(type(CHAT), "__call__", note)
    with pytest.raises(InputError, match="the first 8192 characters of a text have .* 6000 fit"):
        prompts.tokens({"text": "é% " * 10_000})
    assert given == [4_096, 4_096]
