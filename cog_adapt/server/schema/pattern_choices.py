"""Reads the choices in a pattern such as `^(|auto|lora|match:.{1,200})$`, for a refusal."""

import re

_CHOICES = re.compile(r"\^\(([^()\[\]]*\|[^()\[\]]*)\)\$")
_WORD = re.compile(r"[\w:./-]*?")
_ANY_TEXT = re.compile(r"\.(?:[*+]|\{[\d,]+\})$")


def choices_in_words(pattern: str) -> str:
    """Return a sentence with the choices that a pattern allows; empty for any other pattern."""
    found = _CHOICES.fullmatch(pattern)
    choices = [_ANY_TEXT.sub("…", choice) for choice in found[1].split("|")] if found else []
    if not choices or not all(_WORD.fullmatch(choice.removesuffix("…")) for choice in choices):
        return ""
    named = ", ".join(choice for choice in choices if choice)
    return f". Send one of {named}{', or an empty text' * ('' in choices)}."
