"""A pattern that lists choices is said as its choices."""

import pytest

from cog_adapt.server.schema.pattern_choices import choices_in_words


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (
            "^(|auto|lora|match:.{1,200})$",
            ". Send one of auto, lora, match:…, or an empty text.",
        ),
        ("^(auto|head)$", ". Send one of auto, head."),
        ("^[a-z][0-9]$", ""),
        ("^(a+|b)$", ""),
        ("^(a|(b))$", ""),
        ("auto|head", ""),
        ("^(auto)$", ""),
    ],
)
def test_the_choices_of_a_pattern_follow_its_problem(pattern, words):
    assert choices_in_words(pattern) == words
