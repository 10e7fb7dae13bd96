"""Problems are few and short, whatever is wrong."""

from itertools import count

from cog_adapt.server.schema.problems import MOST_PROBLEMS, Problem, bounded, first, shorten


def test_a_long_message_keeps_its_beginning_and_its_end():
    assert shorten("a" * 1_000) == "a" * 1_000
    shown = shorten("begin" + "x" * 1_000_000 + "end")
    assert shown.startswith("begin")
    assert shown.endswith("end")
    assert len(shown) < 1_000
    assert "1,000,008 characters" in shown


def test_no_more_are_taken_than_are_shown_and_one():
    problems = list(first(Problem(("body", "input", str(number)), "") for number in count()))
    assert len(problems) == MOST_PROBLEMS + 1
    shown = bounded(problems, 0)
    assert shown[:-1] == problems[:-1]
    assert shown[-1].msg == (
        "the first 100 problems are listed; there is at least 1 more. Correct these first."
    )
    both = bounded(problems, 7)[-1].msg
    assert "at least 1 more, and 7 items of lists were not looked at" in both


def test_a_few_stay_as_they_are():
    few = [Problem(("body", "input", "a"), "b", "c")]
    assert bounded(few, 0) == few
