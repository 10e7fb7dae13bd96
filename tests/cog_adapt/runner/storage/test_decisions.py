"""Decisions are found by key, by owner and by a part of the examples, and go with adapters."""

import json
import logging

import pytest

from cog_adapt.runner.errors import StoreError
from cog_adapt.runner.storage import decision_files
from cog_adapt.runner.storage import decisions as module
from cog_adapt.runner.storage.decisions import Decision, Decisions
from gradient_check.tests.present import present

KEY, OTHER, FAMILY = "a" * 32, "b" * 32, "c" * 16
ADAPTER = "d" * 16


def decided(key=KEY, adapter=ADAPTER, **more):
    return Decision(key, FAMILY, adapter, {"steps": 3}, **more)


@pytest.fixture
def decisions(tmp_path):
    return Decisions(tmp_path)


def test_one_is_found_by_its_key_also_after_a_restart(decisions, tmp_path):
    decisions.keep("ann", decided(rows=("1", "2")))
    for found in (decisions, Decisions(tmp_path)):
        assert found.find("ann", KEY) == decided(rows=("1", "2"))
        assert found.find("ann", OTHER) is None
        assert found.find("bob", KEY) is None
        assert found.find("", KEY) is None


def test_memory_alone_has_what_was_decided_here(decisions, tmp_path):
    decisions.keep("", decided())
    assert decisions.recent("", KEY) == decided()
    assert Decisions(tmp_path).recent("", KEY) is None


def test_that_the_base_answers_is_a_decision_too(decisions, tmp_path):
    decisions.keep("", decided(adapter=None))
    assert present(Decisions(tmp_path).find("", KEY)).adapter is None


def test_what_was_cut_short_is_not_found_by_its_key(decisions):
    decisions.keep("", decided(is_complete=False))
    assert decisions.find("", KEY) is None
    assert present(decisions.of_adapter("", ADAPTER)).is_complete is False
    decisions.keep("", decided(adapter="e" * 16))
    assert present(decisions.find("", KEY)).adapter == "e" * 16


def test_fresh_ones_did_not_go_on_from_fewer_examples(decisions):
    decisions.keep("", decided(started_from="f" * 16))
    assert decisions.find("", KEY)
    assert decisions.find("", KEY, fresh=True) is None
    assert decisions.recent("", KEY, fresh=True) is None
    decisions.keep("", decided(adapter="e" * 16))
    assert present(decisions.find("", KEY, fresh=True)).adapter == "e" * 16


def test_the_largest_known_part_is_found(decisions, tmp_path):
    for number, rows in enumerate((("1",), ("1", "2"), ("1", "9"), ("1", "2", "3"))):
        decisions.keep("", decided(f"{number:032}", f"{number:016}", rows=rows))
    decisions.keep("", decided("9" * 32, None, rows=("1", "2", "4")))
    found = present(Decisions(tmp_path).largest_part("", FAMILY, ("3", "2", "1")))
    assert found.rows == ("1", "2")
    assert decisions.largest_part("", "e" * 16, ("1", "2", "3")) is None
    assert decisions.largest_part("ann", FAMILY, ("1", "2", "3")) is None


def test_they_go_with_their_adapter(decisions, tmp_path):
    dropped: list[tuple[str, Decision]] = []
    decisions.watch(lambda owner, each: dropped.append((owner, each)))
    for key, adapter in ((KEY, ADAPTER), (OTHER, ADAPTER), ("9" * 32, "e" * 16)):
        decisions.keep("ann", decided(key, adapter))
    decisions.keep("bob", decided())
    decisions.drop("ann", ADAPTER)
    assert {(owner, each.key) for owner, each in dropped} == {("ann", KEY), ("ann", OTHER)}
    for found in (decisions, Decisions(tmp_path)):
        assert found.find("ann", KEY) is None
        assert found.find("ann", "9" * 32)
        assert found.find("bob", KEY)


def test_one_or_all_of_an_owner_can_be_dropped(decisions, tmp_path):
    for owner in ("ann", "bob"):
        decisions.keep(owner, decided(KEY, None))
        decisions.keep(owner, decided(OTHER, None))
    decisions.drop_key("ann", KEY)
    assert decisions.find("ann", OTHER)
    decisions.drop_key("ann")
    for found in (decisions, Decisions(tmp_path)):
        assert [found.find("ann", key) for key in (KEY, OTHER)] == [None, None]
        assert found.find("bob", KEY)


def test_a_damaged_file_is_no_decision(decisions, tmp_path):
    decisions.keep("", decided())
    path = tmp_path / "decisions" / decided().file_name
    for content in (b"", b"[]", b'{"key": 1}', json.dumps({"key": OTHER}).encode()):
        path.write_bytes(content)
        assert Decisions(tmp_path).find("", KEY) is None
    (tmp_path / "decisions" / "notes.txt").write_text("")
    assert Decisions(tmp_path).find("", KEY) is None


def test_a_full_disk_costs_its_survival_of_a_restart(decisions, monkeypatch, caplog):
    def full(path, content):
        raise StoreError("full")

    monkeypatch.setattr(decision_files, "write_whole", full)
    with caplog.at_level(logging.WARNING, module.__name__):
        decisions.keep("", decided())
    assert "is in memory only: full" in caplog.text
    assert decisions.find("", KEY) == decided()
    decisions.drop("", ADAPTER)
    assert decisions.find("", KEY) is None


def test_memory_and_an_owners_files_are_bounded(decisions, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_IN_MEMORY", 2)
    monkeypatch.setattr(module, "MOST_OF_OWNER", 3)
    for number in range(5):
        decisions.keep("", decided(f"{number:032}", f"{number:016}"))
    known = [decisions.recent("", f"{number:032}") for number in range(5)]
    assert known[4]
    assert sum(each is not None for each in known) <= 2
    assert len(list((tmp_path / "decisions").iterdir())) == 3
    assert decisions.find("", f"{4:032}")
