"""The comparison of tools for gradients: what each sees, how it is counted, the page's table."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from bench.gradient_tools.__main__ import ALL_BY_HAND, compare, in_order, row
from bench.gradient_tools.asking import ask
from bench.gradient_tools.page import block_of, write_block
from bench.gradient_tools.records import Records
from bench.gradient_tools.subjects import HEALTHY_KIND, Subject, subjects
from bench.gradient_tools.tools import TOOLS
from bench.gradient_tools.verdicts import NotApplicable, Verdict, Wrong
from gradient_check.exam.case import Case, rows

RESULTS = Path(__file__).parents[3] / "docs" / "results"
pytestmark = [
    pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled"),
    pytest.mark.filterwarnings("ignore:Error detected in"),  # anomaly mode's own words
    pytest.mark.filterwarnings("ignore:.*torch.jit.script"),
    pytest.mark.skipif(
        torch.cuda.is_available(), reason="torch refuses autograd in a fork of a process with a GPU"
    ),
]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Any) -> Any:
        return values.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return 2 * gradient


class Part(nn.Module):
    """A step between two layers, by what is wrong with it."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def forward(self, h: Any) -> Any:
        if self.fault == "cut":
            return h.detach()
        if self.fault == "not a number":
            return h + 0 * (h - h).sqrt()
        if self.fault == "mixed":
            return h - h.mean(0)
        if self.fault == "raises":
            return h.exp().add_(1)  # exp keeps its output for the backward
        return Doubled.apply(h) if self.fault == "wrong" else h


def made(fault: str) -> Case:
    torch.manual_seed(0)
    return Case(nn.Sequential(nn.Linear(8, 8), Part(fault), nn.Tanh(), nn.Linear(8, 3)), rows(4, 8))


def sees(tool: str, fault: str) -> bool:
    """Whether a tool says that something is wrong, or lets the loop's own error pass."""
    try:
        TOOLS[tool](made(fault))
    except (Wrong, RuntimeError):
        return True
    return False


HAND = {"gradients there", "parameters change"}
PROOFS = {"check_gradients", "gradcheck", "gradgradcheck"}


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        ("none", set()),
        ("cut", PROOFS | HAND | {"gradcheck, forward mode"}),
        ("wrong", {"check_gradients", "gradcheck"}),
        ("mixed", {"batch mixing"}),
        ("raises", {*TOOLS} - {"gradcheck, forward mode"}),
    ],
)
def test_each_tool_sees_what_it_is_for(fault: str, seen: set[str]) -> None:
    found = {tool for tool in TOOLS if sees(tool, fault)}
    assert seen <= found
    if fault in ("none", "mixed"):
        assert found == seen


def test_anomaly_mode_sees_values_that_are_no_numbers() -> None:
    assert sees("anomaly mode", "not a number")
    assert not sees("two steps", "not a number")


def test_a_forward_that_cannot_run_in_float64_is_not_asked_about() -> None:
    net = nn.Sequential(nn.Linear(8, 3))
    case = Case(net, rows(4, 8), lambda module, x: module(x.float()).square().mean(1))
    with pytest.raises(NotApplicable, match="in float64"):
        TOOLS["gradcheck"](case)


def test_a_subject_is_asked_in_a_process_of_its_own() -> None:
    subject = Subject(
        "here", "cut", "no gradient", lambda: made("cut"), lambda text: "h.det" in text
    )
    verdict = ask(subject, "check_gradients")
    assert verdict.alarm
    assert verdict.line
    assert "graph-cut" in verdict.words
    assert ask(subject, "two steps").alarm is False


def test_both_corpora_are_asked_about_under_names_of_their_own() -> None:
    all_of_them = subjects()
    assert {s.corpus for s in all_of_them} == {"tests", "exam"}
    assert len({(s.corpus, s.name) for s in all_of_them}) == len(all_of_them) > 450
    assert sum(s.kind == HEALTHY_KIND for s in all_of_them) > 150
    assert sorted(map(id, in_order(all_of_them))) == sorted(map(id, all_of_them))


def test_rows_count_alarms_lines_and_what_was_not_asked() -> None:
    kinds = ["no gradient", "wrong gradient", HEALTHY_KIND, HEALTHY_KIND]
    chosen = [Subject("here", str(i), kind, lambda: made("none")) for i, kind in enumerate(kinds)]
    verdicts = [
        Verdict(True, True, 0.1, ""),
        Verdict(False, False, 0.3, ""),
        Verdict(True, None, 0.2, ""),
        Verdict(None, None, 9.0, "no answer"),
    ]
    counted = row("tool", chosen, verdicts)
    assert counted["faults seen"] == "1/2"
    assert counted["no gradient"] == "1/1"
    assert counted["wrong gradient"] == "0/1"
    assert counted["line named"] == "1/2"
    assert counted["healthy called wrong"] == "1/2"
    assert counted["not asked"] == "1"
    assert counted["processor ms"].median == pytest.approx(200)


def test_one_alarm_of_the_checks_by_hand_is_enough(tmp_path: Path) -> None:
    subject = Subject("here", "cut", "no gradient", lambda: made("cut"))
    answers = compare([subject], Records(tmp_path / "records.jsonl", "now"), minutes=5)
    assert answers[ALL_BY_HAND][0].alarm
    assert [v.alarm for v in answers["two steps"]] == [False]


def test_a_run_that_was_cut_off_goes_on_and_other_sources_are_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    subject, other = (Subject("here", name, HEALTHY_KIND, lambda: made("none")) for name in "ab")
    kept = {tool: Verdict(True, None, 0.5, "as kept") for tool in TOOLS}
    Records(path, "now").add(subject, kept)
    with path.open("a") as file:
        file.write('{"sources": "now", "corpus": "here", "na')  # where the run was cut off
    answers = compare([subject, other], Records(path, "now"), minutes=0)
    assert {tool: found for tool, found in answers.items() if tool in TOOLS} == {
        tool: [verdict] for tool, verdict in kept.items()
    }
    Records(path, "now").add(other, kept)
    assert Records(path, "now").of(other, ["two steps"]) == {"two steps": kept["two steps"]}
    assert Records(path, "later").of(subject, TOOLS) is None


def test_the_page_s_table_is_that_of_the_run(tmp_path: Path) -> None:
    page = (RESULTS / "gradient-tools.md").read_text()
    found = json.loads((RESULTS / "gradient-tools.json").read_text())
    assert block_of(found) in page
    copy = tmp_path / "page.md"
    copy.write_text(page)
    seen, found["rows"][0]["faults seen"] = found["rows"][0]["faults seen"], "1/1"
    write_block(copy, found)
    assert copy.read_text() == page.replace(
        f"| `check_gradients` | {seen}", "| `check_gradients` | 1/1"
    )
