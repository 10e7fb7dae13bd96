"""A pass is found under its own conditions only, and whatever is broken is none."""

import json
import os
import threading

import pytest

from cog_adapt.runner.selftest.kept_passes import KeptPass, KeptPasses

HERE = {"base": "b", "torch": "2"}
PASS = KeptPass(("frozen",))


def only_file(folder):
    (file,) = (folder / "selftest").iterdir()
    return file


def path_of(folder, conditions):
    """Where the pass of these conditions lies; there is none now."""
    KeptPasses(folder).keep(conditions, PASS)
    path = only_file(folder)
    path.unlink()
    return path


def test_a_pass_is_kept_beside_the_weights_and_found_by_the_next_process(tmp_path):
    assert KeptPasses(tmp_path).find(HERE) is None
    KeptPasses(tmp_path).keep(HERE, PASS)
    assert only_file(tmp_path).suffix == ".json"
    assert KeptPasses(tmp_path).find(HERE) == PASS


@pytest.mark.parametrize("other", [{"base": "c"}, {"torch": "3"}, {"card": "x"}])
def test_it_holds_under_its_own_conditions_only(tmp_path, other):
    KeptPasses(tmp_path).keep(HERE, PASS)
    assert KeptPasses(tmp_path).find(HERE | other) is None


def test_a_file_that_was_moved_to_other_conditions_is_no_pass(tmp_path):
    passes = KeptPasses(tmp_path)
    path = path_of(tmp_path, HERE)
    passes.keep({"base": "other"}, PASS)
    only_file(tmp_path).rename(path)
    assert passes.find(HERE) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe",
        b"[" * 60_000,
        b"{}",
        b'{"format": 0}',
        b" " * 70_000,
        b'{"format": 1, "codes": [], "conditions": {"base": "b"}}',
        b'{"format": 1, "codes": 3, "conditions": {"base": "b", "torch": "2"}}',
    ],
)
def test_a_broken_old_or_foreign_file_is_no_pass_and_is_replaced(tmp_path, content):
    passes = KeptPasses(tmp_path)
    passes.keep(HERE, PASS)
    only_file(tmp_path).write_bytes(content)
    assert passes.find(HERE) is None
    passes.keep(HERE, PASS)
    assert passes.find(HERE) == PASS


def test_a_pass_cut_short_at_any_byte_is_none(tmp_path):
    passes = KeptPasses(tmp_path)
    passes.keep(HERE, PASS)
    whole = only_file(tmp_path).read_bytes().rstrip()
    for length in range(len(whole)):
        only_file(tmp_path).write_bytes(whole[:length])
        assert passes.find(HERE) is None, length


@pytest.mark.parametrize("place", ["selftest", "selftest/pass"])
def test_a_folder_or_a_file_in_the_way_is_no_pass_and_no_error(tmp_path, place, caplog):
    passes = KeptPasses(tmp_path)
    if place == "selftest":
        (tmp_path / place).write_text("a file")
    else:
        path = path_of(tmp_path, HERE)
        path.mkdir()
        (path / "inside").write_text("a file")
    passes.keep(HERE, PASS)
    assert "is not kept, so the next start tests all again" in caplog.text
    assert passes.find(HERE) is None


def test_one_that_is_dropped_is_gone_and_may_be_dropped_again(tmp_path):
    passes = KeptPasses(tmp_path)
    passes.keep(HERE, PASS)
    for _ in range(2):
        passes.drop(HERE)
    assert passes.find(HERE) is None


def test_the_longest_unused_go_first(tmp_path):
    passes = KeptPasses(tmp_path)
    conditions = [{"base": str(number)} for number in range(33)]
    for number, each in enumerate(conditions[:-1]):
        passes.keep(each, PASS)
        newest = max((tmp_path / "selftest").iterdir(), key=lambda path: path.stat().st_mtime)
        os.utime(newest, (number, number))
    assert passes.find(conditions[0]) == PASS  # used now
    passes.keep(conditions[-1], PASS)
    found = [passes.find(each) is not None for each in conditions]
    assert found == [True, False] + 31 * [True]


def test_writers_at_the_same_time_leave_one_whole_pass(tmp_path):
    def write(code):
        for _ in range(20):
            KeptPasses(tmp_path).keep(HERE, KeptPass((code,)))

    threads = [threading.Thread(target=write, args=(code,)) for code in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert json.loads(only_file(tmp_path).read_text())["codes"] in (["one"], ["two"])
