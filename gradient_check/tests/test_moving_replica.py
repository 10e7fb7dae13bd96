"""Values that moved come back, from copies or made again."""

import torch

from gradient_check.tests.flows import subject_of, tower


def values(subject) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in subject.parameters.items()}


def same(one, other) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def test_a_small_modules_values_come_back_bit_for_bit() -> None:
    subject = subject_of(tower())
    before = values(subject)
    with subject.moved(subject.names, 0.5):
        assert not same(before, values(subject))
    assert same(before, values(subject))


def test_a_large_modules_values_are_made_again_as_they_were(monkeypatch) -> None:
    monkeypatch.setattr("gradient_check.instruments.subject.SMALL_BYTES", 0)
    subject = subject_of(tower())
    assert subject.weights is not None
    subject.weights.lend()
    subject.perturb(subject.names)
    before = values(subject)
    with subject.moved(subject.names[2:], 0.5):
        assert not same(before, values(subject))
    assert same(before, values(subject))
