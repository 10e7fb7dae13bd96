"""Each example is answered once by a model that has not seen it, and each label is in each fold."""

import torch

from cog_adapt.runner.heads.folds import folds

UNEVEN = ["a"] * 7 + ["b"] * 5 + ["c"] * 2 + ["d"] * 3 + ["alone"]


def shown(parts):
    return [(train.tolist(), others.tolist()) for train, others in parts]


def test_each_example_is_answered_once_and_trained_on_otherwise():
    parts = shown(folds(UNEVEN, 0))
    answered = sorted(position for _, others in parts for position in others)
    assert answered == list(range(len(UNEVEN) - 1))
    for train, others in parts:
        assert sorted([*train, *others]) == list(range(len(UNEVEN)))


def test_each_label_is_spread_over_the_folds():
    for seed in range(5):
        first, second = ([UNEVEN[i] for i in others] for _, others in shown(folds(UNEVEN, seed)))
        for label in "abcd":
            assert abs(first.count(label) - second.count(label)) <= 1


def test_odd_counts_do_not_all_favour_one_fold():
    parts = folds([label for label in "abcdefgh" for _ in range(3)], 0)
    assert [len(others) for _, others in parts] == [12, 12]


def test_a_label_with_one_example_is_trained_on_in_all_folds():
    alone = UNEVEN.index("alone")
    for train, others in shown(folds(UNEVEN, 0)):
        assert alone in train
        assert alone not in others


def test_too_few_answers_give_no_folds():
    assert folds(["a", "b"] * 4, 0)
    assert folds(["a", "b"] * 3 + ["a"], 0) == []
    assert folds(["a", "b"] * 3 + ["a", "c", "d"], 0) == []  # seven to answer, two are alone
    assert folds([str(number) for number in range(50)], 0) == []
    assert folds([], 0) == []


def test_the_seed_repeats_them_and_another_divides_otherwise():
    before = torch.get_rng_state()
    assert shown(folds(UNEVEN, 3)) == shown(folds(UNEVEN, 3))
    assert len({str(shown(folds(UNEVEN, seed))) for seed in range(5)}) == 5
    assert torch.equal(before, torch.get_rng_state())
