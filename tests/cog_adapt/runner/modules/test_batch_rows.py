"""A layer finds what belongs to the rows it sees; without a shared forward nothing happens."""

import pytest
import torch

from cog_adapt.runner.errors import ModeError
from cog_adapt.runner.modules.batch_rows import batch_rows, holders_of, holding


def test_layers_see_the_whole_batch_in_order():
    with holding("abc"):
        assert holders_of(3) == "abc"


def test_a_model_that_picks_rows_says_which():
    with holding("abcd"):
        with batch_rows(torch.tensor([3, 0])):
            assert holders_of(2) == ["d", "a"]
            with batch_rows(torch.tensor([1])):
                assert holders_of(1) == ["a"]
        assert holders_of(4) == "abcd"


def test_one_that_does_not_say_is_refused():
    with holding("abcd"), pytest.raises(ModeError, match=r"2 rows; 4 were expected.*batch_rows"):
        holders_of(2)


def test_outside_a_shared_forward_it_does_nothing():
    with batch_rows(torch.tensor([5, 6])):
        pass
    with pytest.raises(ModeError):
        holders_of(2)


def test_an_error_inside_leaves_nothing_behind():
    def failing():
        with holding("ab"), batch_rows(torch.tensor([0])):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        failing()
    with pytest.raises(ModeError, match="0 were expected"):
        holders_of(1)
