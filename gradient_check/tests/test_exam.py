"""The short form of the exam: one question in twenty, and how an answer is judged."""

import hashlib
import sys
from pathlib import Path

import pytest
from torch import nn

from gradient_check import exam
from gradient_check.exam.__main__ import examine
from gradient_check.exam.case import Case, ModuleQuestions, Question, Questions, rows
from gradient_check.exam.judging import ask, interval, judge, table, wrong
from gradient_check.exam.sets import SETS, questions
from gradient_check.findings.report import Finding, GradientReport

CUT = Finding("graph-cut", "FAIL", "cut", ("a.weight",), "a (Linear)", "exam/x.py:7: a / b")


def healthy() -> Case:
    return Case(nn.Linear(4, 2), rows(3, 4))


def judged(question: Question, *findings: Finding):
    report = GradientReport(findings, (), {}, "cpu/fp32", 0.1)
    return judge(question, report, untouched=True)


def test_one_question_in_twenty_is_answered_right():
    answers = examine("plain", "", quick=True)
    assert len(answers) >= 9
    assert wrong(answers) == []


@pytest.mark.parametrize("name", ["known", "plain", "second", "sealed"])
def test_each_question_has_a_name_of_its_own(name):
    asked = questions(name)
    assert len({(q.group, q.name, q.is_fault) for q in asked}) == len(asked) > 200


def test_there_are_enough_questions_of_each_group():
    asked = questions("plain")
    counts = {group: sum(q.group == group for q in asked) for group in {q.group for q in asked}}
    assert counts["faults"] >= 60
    assert counts["adversarial"] >= 30
    assert counts["healthy"] >= 40
    assert set(SETS) == {"known", "plain", "transformers", "vision"}


def test_a_marked_line_is_the_line_to_be_named():
    known = Questions("some")

    @known.fault("graph-cut")
    def cut() -> Case:
        return healthy()  # fault

    (question,) = known
    first = cut.__code__.co_firstlineno
    assert question.lines == (f"test_exam.py:{first + 2}:",)


def test_a_fault_wants_its_code_and_its_line():
    question = Question("some", "cut", healthy, ("graph-cut",), ("x.py:7:",))
    assert judged(question, CUT).right
    other = judged(Question("some", "cut", healthy, ("unused",), ("x.py:7:",)), CUT)
    assert (other.alarm, other.code, other.line) == (True, False, False)
    assert not judged(Question("some", "cut", healthy, ("graph-cut",), ("x.py:8:",)), CUT).right
    assert not judged(question).alarm


def test_a_fault_may_want_a_module_a_part_of_the_line_or_a_warning():
    makers = ModuleQuestions("some", lambda part: nn.Sequential(nn.Flatten(), part), "a ", probe=0)
    for code in ("graph-cut", "unused"):
        makers.faulty_part(code, "a / b")(nn.Tanh)
    makers.faulty_part("graph-cut", "a / c")(nn.Tanh)
    makers.faulty("graph-cut", "b.weight")(nn.Tanh)
    makers.faulty("rough", level="WARN")(nn.Tanh)
    assert [judged(each, CUT).right for each in makers] == [True, False, False, False, False]
    assert judged(makers[-1], Finding("rough", "WARN", "rough")).right
    assert (makers[0].name, makers[0].is_fault) == ("Tanh", True)
    assert isinstance(makers[0].make().module.get_submodule("1"), nn.Tanh)


def test_a_healthy_model_wants_no_failure_and_no_strange_warning():
    warned = Finding("rough", "WARN", "rough")
    question = Question("some", "sound", healthy)
    assert judged(question).right
    assert not judged(question, CUT).right
    assert judged(question, warned).strange == ("rough",)
    assert judged(Question("some", "sound", healthy, warnings=("rough",)), warned).right


def test_a_hidden_parameter_must_be_named():
    question = Question("some", "hidden", healthy, unverified="a.weight")
    named = Finding("unverified", "NOTE", "not verified", ("a.weight",))
    assert judged(question, named).right
    assert judged(question, CUT).right
    assert not judged(question).right


def test_the_table_counts_by_group():
    answer = ask(Question("some", "sound", healthy))
    fault = judged(Question("some", "cut", healthy, ("graph-cut",)), CUT)
    sound, faulty = table([answer, fault])
    assert sound == {
        "set": "some", "cases": 1, "passed": 1, "no unexpected warning": 1, "left untouched": 1,
    }  # fmt: skip
    assert faulty["alarm"] == faulty["right code"] == 1
    assert faulty["with a line"] == 0


@pytest.mark.parametrize("half", ["second", "sealed"])
def test_each_half_of_the_second_exam_has_a_hundred_faults_and_as_many_healthy_models(half):
    asked = questions(half)
    assert sum(q.is_fault for q in asked) >= 100
    assert sum(not q.is_fault for q in asked) >= 100


def test_sealed_cases_are_asked_and_the_names_of_their_imports_do_not_stay():
    answers = [ask(question) for question in questions("sealed")[::100]]
    assert wrong(answers) == []
    assert not [name for name in sys.modules if name.startswith("bench.exam")]


def test_what_is_sealed_is_what_was_committed():
    archives = sorted(Path(exam.__file__).parent.glob("second*/sealed_*.zip"))
    assert len(archives) == 2
    for archive in archives:
        digest = archive.with_suffix(".sha256").read_text().split()[0]
        assert hashlib.sha256(archive.read_bytes()).hexdigest() == digest


def test_a_share_has_the_interval_of_its_count():
    low, high = interval(98, 100)
    assert (round(low, 3), round(high, 3)) == (0.930, 0.994)
    assert interval(5, 5)[1] == pytest.approx(1.0)
