"""What the worker says about the adapters that a predictor keeps."""

import threading
from queue import SimpleQueue
from unittest.mock import Mock

import msgspec
import pytest

from cog_adapt.server.adapter_messages import (
    AdapterChanged,
    AdaptersAnswered,
    AdaptersListed,
    AskAdapters,
)
from cog_adapt.server.worker.adapters import THREADS, AdapterAnswers, AdapterLease
from cog_adapt.server.worker.extensions import find_adapters
from tests.cog_adapt.server.kept_adapters import KeptAdapters


class Said(SimpleQueue):
    """What the worker has said."""

    def next(self, kind):
        while not isinstance(report := self.get(timeout=10), kind):
            pass
        return report


@pytest.fixture
def said():
    return Said()


def started(said, *contents):
    kept = KeptAdapters()
    ids = [kept.put("ada", content)["id"] for content in contents]
    answers = AdapterAnswers(kept, said.put, AdapterLease())
    answers.start()
    return kept, answers, *ids


def listed(said):
    found, is_last = [], False
    while not is_last:
        report = said.next(AdaptersListed)
        is_last = report.is_last
        found += msgspec.json.decode(report.metadata)
    return found, report.is_whole


def test_at_its_start_all_are_listed_in_parts(said):
    kept, _, *ids = started(said, *(b"%d" % number for number in range(250)))
    found, is_whole = listed(said)
    assert ([each["id"] for each in found], is_whole) == (ids, True)


def test_a_list_that_fails_is_said_to_lack_some(said, capsys):
    class Broken(KeptAdapters):
        def describe(self, owner):
            raise RuntimeError("no folder")

    AdapterAnswers(Broken(), said.put, AdapterLease()).start()
    assert listed(said) == ([], False)
    assert "no folder" in capsys.readouterr().err


def test_each_change_is_said_before_the_one_who_made_it_goes_on(said):
    kept, _ = started(said)
    listed(said)
    name = kept.put("ada", b"x")["id"]
    change = said.get_nowait()
    assert (change.owner, change.adapter_id) == ("ada", name)
    assert msgspec.json.decode(change.metadata) == kept.kept["ada", name][0]
    kept.remove("ada", name)
    assert said.get_nowait() == AdapterChanged("ada", name, None)


def test_what_keeps_more_than_adapters_is_asked_to_forget(said):
    class Keeping(KeptAdapters):
        def forget(self, owner, key):
            self.described.append((owner, key))

    keeps_no_more, kept = KeptAdapters(), Keeping()
    for each in (keeps_no_more, kept):
        answers = AdapterAnswers(each, said.put, AdapterLease())
        answers.start()
        listed(said)
        for key in ("k1", ""):
            answers.answer(AskAdapters(7, "forget", "ada", key))
            assert said.next(AdaptersAnswered).fault is None
    assert kept.described[-2:] == [("ada", "k1"), ("ada", None)]


def test_one_that_takes_long_holds_up_no_other(said, tmp_path):
    kept, answers, name = started(said, b"x")
    listed(said)
    kept.answers.clear()
    for number in range(THREADS - 1):
        answers.answer(AskAdapters(number, "remove", "ada", "unknown"))
    answers.answer(AskAdapters(99, "change", "ada", name, changes=b"{"))  # asks nothing of it
    assert said.next(AdaptersAnswered).number == 99
    kept.answers.set()


@pytest.mark.parametrize(
    ("content", "fault", "says"),
    [
        (b"bad", "input", "InputError: the file is no adapter"),
        (b"disk full", "storage", "no space is left"),
        (b"fault", "unknown", "the predictor's adapters failed; the server's log says how"),
    ],
)
def test_whose_fault_it_is(said, tmp_path, capsys, content, fault, says):
    _, answers = started(said)
    (tmp_path / "upload").write_bytes(content)
    answers.answer(AskAdapters(1, "take", "ada", path=str(tmp_path / "upload")))
    answer = said.next(AdaptersAnswered)
    assert answer.fault == fault
    assert says.removeprefix("InputError: ") in answer.error
    assert ("Traceback" in capsys.readouterr().err) is (fault != "input")


def test_others_are_not_found_as_unknown_ones(said):
    _, answers, name = started(said, b"x")
    answers.answer(AskAdapters(1, "remove", "bob", name))
    answer = said.next(AdaptersAnswered)
    assert (answer.fault, answer.error) == ("not found", f"there is no adapter {name!r}")


class Holder:
    def __init__(self, **held):
        vars(self).update(held)


def test_adapters_are_found_on_the_predictor_and_on_what_it_holds():
    kept = KeptAdapters()
    assert find_adapters(Holder(adapters=kept)) is kept
    assert find_adapters(Holder(runner=Holder(adapters=kept))) is kept
    for without in (Holder(), Holder(adapters=["a"]), Mock(), object(), lambda: None):
        assert find_adapters(without) is None


def test_what_the_threads_are_does_not_keep_a_process_alive(said):
    started(said)
    found = [each for each in threading.enumerate() if each.name.startswith("adapters")]
    assert found
    assert all(each.daemon for each in found)
