"""Parameters are compared one by one where that is quick, else in a few groups of neighbours."""

import itertools
import time

import pytest
from torch import nn

from gradient_check.check import check_gradients
from gradient_check.checks.block_groups import grouped
from gradient_check.exam.known.hosts import rows, squares
from gradient_check.instruments.differences import FLOAT32, SIXTEEN_BIT
from gradient_check.tests.flows import ran, subject_of, tower

SLOW = 60.0  # seconds of a forward


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(3, [1] * 3), (16, [1] * 16), (17, [2] * 8 + [1]), (49, [4] * 10 + [3] * 3)],
)
def test_at_most_sixteen_groups_of_neighbours_are_tested(count, sizes) -> None:
    layers = nn.Sequential(*[nn.Linear(6, 6, bias=False) for _ in range(count)])
    groups = grouped(subject_of(layers), FLOAT32, SLOW)
    assert sorted(map(len, groups.values()), reverse=True) == sizes
    assert [name for own in groups.values() for name in own] == [
        f"{number}.weight" for number in range(count)
    ]
    assert next(iter(groups)) == ("0" if sizes[0] == 1 else f"0 to {sizes[0] - 1}")


def test_a_quick_module_is_compared_by_parameter_and_a_slow_one_by_block() -> None:
    subject = ran(tower()).subject
    assert grouped(subject, FLOAT32, 0.0) == {name: [name] for name in subject.names}
    by_block = grouped(subject, FLOAT32, SLOW)
    assert list(by_block) == ["first", "blocks.0", "blocks.1", "head"]
    assert grouped(subject, SIXTEEN_BIT, 0.0) == by_block


def test_a_module_is_compared_in_the_same_blocks_while_others_use_the_cores(monkeypatch) -> None:
    def forwards() -> int:
        module, count = tower(), itertools.count()
        module.register_forward_hook(lambda *_: next(count) and None)
        assert check_gradients(module, rows(3, 6), squares).passed
        return next(count)

    alone = forwards()
    clock = itertools.count(step=100.0)
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    assert forwards() == alone
