"""What a task of growing answers is asked by default."""

from cog_adapt.runner.inference.growing import AnswerPiece
from tests.cog_adapt.growing import Spelling


def test_an_answers_pieces_are_joined_as_texts():
    assert Spelling().joined(["a", "bc"]) == "abc"
    assert Spelling().joined([]) == ""


def test_a_report_has_nothing_more_by_default():
    assert Spelling().more_of_report({"steps": 3}) == {}


def test_a_piece_is_a_value():
    assert AnswerPiece("a") == AnswerPiece("a")
