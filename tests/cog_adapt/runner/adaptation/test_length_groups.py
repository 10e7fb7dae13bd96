"""Groups of similar length give each row what one wide batch gives; positions follow their rows."""

from typing import Any

import torch

from cog_adapt.runner.adaptation.length_groups import in_length_groups
from cog_adapt.runner.modules.batch_rows import holding, rows_now

LENGTHS = [3, 1, 6, 2, 5, 4, 2, 1]


def batch_of(lengths):
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return {"ids": mask * torch.arange(1, len(lengths) + 1)[:, None], "attention_mask": mask}


def watched(calls):
    def function(batch):
        calls.append((batch["ids"].shape, rows_now()))
        return (batch["ids"] * batch["attention_mask"]).sum(1, keepdim=True)

    return function


def test_rows_come_back_in_their_order_from_narrower_groups():
    batch = batch_of(LENGTHS)
    calls: list[Any] = []
    rows = in_length_groups(watched(calls), batch, 4)
    assert torch.equal(rows, batch["ids"].sum(1, keepdim=True))
    assert [shape for shape, _ in calls] == [(2, 1), (2, 2), (2, 4), (2, 6)]


def test_positions_follow_the_rows():
    calls: list[Any] = []
    with holding(range(10, 18)):
        in_length_groups(watched(calls), batch_of(LENGTHS), 4)
        assert rows_now() == tuple(range(10, 18))
    assert [positions for _, positions in calls] == [(11, 17), (13, 16), (10, 15), (14, 12)]
    assert rows_now() == ()


def test_outside_an_adaptation_there_are_no_positions():
    calls: list[Any] = []
    in_length_groups(watched(calls), batch_of(LENGTHS), 4)
    assert {positions for _, positions in calls} == {()}


def test_a_batch_of_fewer_than_two_rows_a_group_runs_whole():
    calls: list[Any] = []
    in_length_groups(watched(calls), batch_of(LENGTHS[:7]), 4)
    assert [shape for shape, _ in calls] == [(7, 6)]


def test_a_batch_of_like_lengths_runs_whole():
    for lengths, whole in (([4] * 8, True), ([4, 3] * 4, True), ([4, 1] * 4, False)):
        calls: list[Any] = []
        in_length_groups(watched(calls), batch_of(lengths), 4)
        assert ([shape for shape, _ in calls] == [(8, 4)]) is whole


def test_a_batch_on_another_device_runs_whole():
    calls: list[Any] = []
    whole = {name: tensor.to("meta") for name, tensor in batch_of(LENGTHS).items()}
    in_length_groups(watched(calls), whole, 4)
    assert [shape for shape, _ in calls] == [(8, 6)]
