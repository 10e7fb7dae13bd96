"""Of a tensor that an inference keeps, the call is named that made it, and it is kept as before."""

from typing import Any

import pytest
import torch
from torch import nn

from gradient_check import check_gradients
from gradient_check.tests.present import present

GLOBAL: Any = None


class Net(nn.Module):
    """Multiplies by a table that its own function makes once."""

    def __init__(self, table) -> None:
        super().__init__()
        self.linear, self.table = nn.Linear(4, 4), table

    def forward(self, values):
        return self.linear(values) * self.table() + self.linear(values)


def in_a_dict():
    kept: dict[int, Any] = {}

    def table():
        if 4 not in kept:
            kept[4] = torch.arange(4.0).cos()  # maker
        return kept[4]

    return table, lambda: kept[4]


def in_a_tuple_in_a_dict():
    kept: dict[str, Any] = {}

    def table():
        if "both" not in kept:
            angles = torch.arange(4.0)
            kept["both"] = (angles.cos(), angles.sin())  # maker
        return kept["both"][1]

    return table, lambda: kept["both"][1]


def in_a_variable():
    kept = None

    def table():
        nonlocal kept
        if kept is None:
            kept = torch.arange(4.0).cos()  # maker
        return kept

    return table, lambda: kept


def in_a_list():
    kept: list[Any] = []

    def table():
        if not kept:
            kept.append(torch.arange(4.0).cos())  # maker
        return kept[0]

    return table, lambda: kept[0]


def in_an_object():
    class Cache:
        table = None

    cache: Any = Cache()

    def table():
        if cache.table is None:
            cache.table = torch.arange(4.0).cos()  # maker
        return cache.table

    return table, lambda: cache.table


def in_a_global():
    def table():
        global GLOBAL
        if GLOBAL is None:
            GLOBAL = torch.arange(4.0).cos()  # maker
        return GLOBAL

    return table, lambda: GLOBAL


def through_a_view():
    table, kept = in_a_dict()
    return lambda: table()[None, :].expand(2, 4), kept


WAYS = [
    in_a_dict,
    in_a_tuple_in_a_dict,
    in_a_variable,
    in_a_list,
    in_an_object,
    in_a_global,
    through_a_view,
]


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def checked(request, monkeypatch):
    if request.param is in_a_global:
        request.getfixturevalue("thawed")
        monkeypatch.setitem(globals(), "GLOBAL", None)
    table, kept = request.param()
    with torch.inference_mode():
        table()
    before = kept()
    report = check_gradients(Net(table), torch.ones(2, 4), lambda out: out.square().mean())
    return report, before, kept()


def test_the_maker_is_named(checked):
    (finding,) = checked[0].findings
    assert finding.code == "train-forward"
    assert present(finding.line).endswith("# maker")
    assert "The named call makes that tensor." in finding.message


def test_what_was_kept_is_kept(checked):
    _, before, after = checked
    assert after is before


def test_where_nothing_makes_it_again_the_user_is_named():
    with torch.inference_mode():
        kept = torch.ones(4)
    report = check_gradients(Net(lambda: kept), torch.ones(2, 4), lambda out: out.square().mean())
    (finding,) = (f for f in report.findings if f.code == "train-forward")
    assert "self.table()" in present(finding.line)
    assert "The named call" not in finding.message
