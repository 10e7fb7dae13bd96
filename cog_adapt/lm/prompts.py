"""The text that a language model reads: messages by the tokenizer's chat template, or a plain text.

An input is a text (one message of a user, if there is a template), a list of messages as chat
clients send them, or `{"text": …}`, which is read unchanged. This module knows no model.
"""

from collections.abc import Mapping, Sequence
from os.path import commonprefix
from typing import Any

from transformers import PreTrainedTokenizerBase

from cog_adapt.runner.data.examples import Example, usual_example
from cog_adapt.runner.data.row import brief
from cog_adapt.runner.errors import InputError

_FEW_CHARACTERS = 8  # characters tokenized for each token that fits; few texts have five a token
_PORTION = 4_096  # characters tokenized before the caller decides whether it needs the rest
_RENAMED = {"prompt": "input", "completion": "target"}


class Prompts:
    """Makes tokens of inputs and of answers.

    Args:
        tokenizer: a fast one.
        most: tokens that an example or a prompt may have.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, most: int) -> None:
        self._tokenizer = tokenizer
        self._most = most
        self._longest = max(map(len, tokenizer.get_vocab()), default=1)

    def tokens(self, input: Any) -> list[int]:  # noqa: ANN401 - what a caller sent
        """Return the tokens of an input, at least one; refuse a wrong input (InputError)."""
        if isinstance(input, Mapping) and isinstance(input.get("text"), str):
            self._refuse_hopeless([input["text"]])
            found = self._tokenizer(input["text"])["input_ids"]
            return self._bounded([*found] or [self._start()])
        messages = _messages(input)
        self._refuse_hopeless([text for message in messages for text in message.values()])
        if not self._tokenizer.chat_template:
            texts = [str(message["content"]) for message in messages]
            return self._bounded(self._tokenizer("\n".join(texts))["input_ids"])
        found = self._tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=True
        )
        return self._bounded([*found["input_ids"]])

    def common(self) -> list[int]:
        """Return the tokens that all texts begin with, from the chat template."""
        return [*commonprefix([self.tokens(text) for text in ("a", "b")])]

    def answer(self, target: Any) -> list[int]:  # noqa: ANN401 - what a caller sent
        """Return the tokens of an answer, with the token that ends it."""
        if not isinstance(target, str) or not target:
            raise InputError(f"the target {brief(target)} is no text, or empty. Send a text.")
        self._refuse_hopeless([target])
        found = self._tokenizer(target, add_special_tokens=False)["input_ids"]
        return self._bounded([*found, self._tokenizer.eos_token_id])

    def _start(self) -> int:
        """Return the beginning of an empty text: a model needs at least one token."""
        bos = self._tokenizer.bos_token_id
        return int(self._tokenizer.eos_token_id if bos is None else bos)

    def _refuse_hopeless(self, texts: Sequence[str]) -> None:
        """Refuse a text that is too long after reading no more of it than needed.

        A long text is tokenized a portion at a time until there are too many tokens. A cut between
        two portions adds at most one token.
        """
        messages = len(texts) // 2  # each message has two texts, and at least one token more
        characters, most = sum(map(len, texts)) + messages, self._most * self._longest
        if characters > most:
            raise InputError(
                f"a text has {characters} characters; more than {most} never fit into {self._most} "
                "tokens. Send a shorter one."
            )
        size, found = min(_PORTION, self._most * _FEW_CHARACTERS), 0
        whole = "".join(texts) if characters > size else ""
        for first in range(0, len(whole), size):
            portion = whole[first : first + size]
            tokens = self._tokenizer(portion, add_special_tokens=False, verbose=False)["input_ids"]
            found += len(tokens) - bool(first)
            if found > self._most:
                raise InputError(
                    f"the first {first + len(portion)} characters of a text have {found} tokens; "
                    f"at most {self._most} fit. Send a shorter one."
                )

    def _bounded(self, tokens: list[int]) -> list[int]:
        if len(tokens) > self._most:
            raise InputError(
                f"a text has {len(tokens)} tokens; at most {self._most} fit. Send a shorter one."
            )
        return tokens


def example_of(row: Mapping[str, Any]) -> Example:
    """Turn a row into an example.

    Columns are `text` (learned as a whole), `messages` (the last is learned), or a prompt and its
    answer: `prompt` and `completion`, or `input` and `target`.
    """
    names = {str(name).lower(): name for name in row}  # a column that was looked up counts as used
    if "messages" in names:
        found = _messages(row[names["messages"]])
        if len(found) < 2 or found[-1]["role"] != "assistant":
            raise InputError("`messages` must end with one of the role 'assistant'. Add it.")
        return Example(found[:-1], found[-1]["content"])
    if {*names} == {"text"}:
        return Example({"text": ""}, row[names["text"]])
    if {*_RENAMED} <= {*names}:
        pair = {new: row[names[name]] for name, new in _RENAMED.items()}
        return usual_example(pair)
    return usual_example(row)


def _messages(input: Any) -> list[dict[str, str]]:  # noqa: ANN401 - what a caller sent
    if isinstance(input, str) and input.strip():
        return [{"role": "user", "content": input}]
    if not isinstance(input, Sequence) or isinstance(input, str) or not input:
        raise InputError(
            f"the input {brief(input)} is no text and no list of messages, or empty. Send a text, "
            'or [{"role": "user", "content": "…"}].'
        )
    for message in input:
        if not isinstance(message, Mapping) or not _is_message(message):
            raise InputError(
                f"the message {brief(message)} needs `role` and `content`, both texts."
            )
    return [{"role": message["role"], "content": message["content"]} for message in input]


def _is_message(message: Mapping[str, Any]) -> bool:
    return all(isinstance(message.get(name), str) for name in ("role", "content"))
