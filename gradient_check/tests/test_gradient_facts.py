"""The facts of a gradient hold where a norm overflows, rounds to 0, or the gradient is sparse."""

import math

import pytest
import torch

from gradient_check.instruments.gradient_facts import GradientFacts


@pytest.mark.parametrize(
    ("values", "facts"),
    [
        ([3.0, 4.0], (5.0, True, False, False)),
        ([3.0, 0.0], (3.0, True, False, True)),
        ([0.0, 0.0], (0.0, True, True, True)),
        ([], (0.0, True, False, False)),
        ([3e38, 3e38], (math.inf, True, False, False)),
        ([1e-40, 1e-40], (0.0, True, False, False)),
        ([math.inf, 0.0], (math.inf, False, False, True)),
    ],
)
def test_facts_of_values(values, facts) -> None:
    assert GradientFacts.of(torch.tensor(values)) == pytest.approx(facts)


def test_values_that_are_no_numbers_are_not_finite() -> None:
    facts = GradientFacts.of(torch.tensor([math.nan, 1.0]))
    assert (facts.is_finite, facts.is_empty, facts.has_zeros) == (False, False, False)


def test_a_sparse_gradient_has_zeros_where_it_has_no_entries() -> None:
    facts = GradientFacts.of(torch.tensor([[0.0, 0.0], [3.0, 4.0]]).to_sparse())
    assert facts == (5.0, True, False, True)
