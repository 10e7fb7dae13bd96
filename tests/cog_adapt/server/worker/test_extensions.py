"""What a predictor offers beside its runs; docs/predictor-protocol.md has the page."""

import contextlib
import math
import textwrap
from typing import Any
from unittest.mock import Mock

import pytest

from cog_adapt.server.command.local_server import LocalClient, local_server
from cog_adapt.server.middleware.keys import make_key
from cog_adapt.server.protocol import Beat, Distribution, Gauges
from cog_adapt.server.worker.extensions import (
    find_kept_folders,
    find_self_testing,
    provide_asker_keys,
    read_extra_gauges,
    read_model_threads,
)

SOURCE = """
    class Report:
        def __init__(self, passed):
            self.passed = passed

        def to_json(self):
            return {"passed": self.passed, "by": "hand"}

    class Table:
        self_test_report = None
        rows = 3

        def self_test(self):
            self.self_test_report = Report(self.rows == 3)
            return self.self_test_report

        def gauges(self):
            return {"table_rows": self.rows}

    class Runner:
        def setup(self):
            self.table = Table()
            self.table.self_test()

        def run(self, rows: int) -> str:
            self.table.rows = rows
            return ""
"""


class Tested:
    self_test_report = None

    def self_test(self):
        return None


class Measured:
    def __init__(self, values):
        self.values = values

    def gauges(self):
        return self.values


class Owning:
    key = None

    def read_owner_from(self, key):
        self.key = key


class Holder:
    def __init__(self, *held):
        for number, each in enumerate(held):
            setattr(self, f"held{number}", each)


def test_a_predictor_without_a_model_runner_is_seen_at_selftest_readiness_and_metrics(tmp_path):
    (tmp_path / "predict.py").write_text(textwrap.dedent(SOURCE))
    (tmp_path / "cog.yaml").write_text("run: predict.py:Runner")
    key, line = make_key("test", ("predict", "admin"))
    (tmp_path / "keys").write_text(line)
    variables = {"API_KEYS_FILE": str(tmp_path / "keys")}
    with (
        contextlib.chdir(tmp_path),
        local_server("predict", variables) as server,
        LocalClient(server.url, key, lambda: None) as client,
    ):
        client.wait_until_ready(60)
        report = client.request("GET", "/selftest")
        assert (report.status_code, report.json()) == (200, {"passed": True, "by": "hand"})
        assert "\ncog_model_table_rows 3.0\n" in client.request("GET", "/metrics").text
        assert client.request("GET", "/readyz").status_code == 200
        client.request("POST", "/predictions", {"input": {"rows": 4}})
        assert client.request("POST", "/selftest").status_code == 503
        assert client.request("GET", "/selftest").json()["passed"] is False
        assert client.request("GET", "/readyz").status_code == 503
        numbers = client.request("GET", "/metrics").text
        assert "\ncog_model_table_rows 4.0\n" in numbers
        assert "\ncog_self_test_passed 0.0\n" in numbers


class Keeping:
    def __init__(self, folders):
        self._folders = folders

    def kept_folders(self):
        return self._folders


def test_the_predictor_itself_is_asked_before_what_it_holds():
    own: Any = Tested()
    held = Tested()
    own.held = held
    assert find_self_testing(own) is own
    assert find_self_testing(Holder(1, held)) is held


def test_what_lies_deeper_or_only_looks_like_it_is_not_found():
    untyped: Any = Holder()
    untyped.self_test, untyped.self_test_report = print, None
    without_report = type("Other", (), {"self_test": lambda self: None})()
    for predictor in (Holder(Holder(Tested())), Mock(), untyped, without_report, print, None, 3):
        assert find_self_testing(predictor) is None
        assert read_extra_gauges(predictor) == Gauges({})


def test_the_folders_that_are_kept_are_those_of_all_that_name_some(tmp_path):
    one: Any
    one, two = (Keeping([tmp_path / name]) for name in "ab")
    one.held = two
    assert find_kept_folders(one) == (tmp_path / "a", tmp_path / "b")
    assert find_kept_folders(Holder(two, Mock())) == (tmp_path / "b",)
    assert find_kept_folders(Keeping([str(tmp_path)])) == (tmp_path,)
    assert find_kept_folders(print) == find_kept_folders(Holder(3)) == ()


def test_the_first_gauges_are_numbers():
    found = read_extra_gauges(Holder("x", Measured({"a": 1}), Measured({"b": 2})))
    assert found == Gauges({"a": 1.0})
    assert math.isnan(read_extra_gauges(Measured({"a": float("nan")})).values["a"])


def test_histograms_and_the_info_are_told_among_the_gauges():
    sizes = {"bounds": [1.0], "counts": [2, 3], "sum": 9.5}
    of_methods = {"method": {"lora": sizes, "head": sizes}}
    gauges = {"a": 1, "sizes": sizes, "steps": of_methods, "info": {"task": "Text"}}
    found = read_extra_gauges(Measured(gauges))
    assert (found.values, found.info) == ({"a": 1.0}, {"task": "Text"})
    assert found.histograms["sizes"] == [Distribution([1.0], [2, 3], 9.5)]
    methods = [{"method": "lora"}, {"method": "head"}]
    assert [each.labels for each in found.histograms["steps"]] == methods
    assert [each.counts for each in found.histograms["steps"]] == [[2, 3]] * 2
    assert read_extra_gauges(Measured({"info": 3})) == Gauges({"info": 3.0})


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"info": {"task": 5}}, "Expected `str`"),
        ({"sizes": {"bounds": [1.0]}}, "required field `counts`"),
        ({"sizes": {"bounds": [1.0], "counts": [1] * 1000, "sum": 1.0}}, "1 bounds and 1000 count"),
        ({"sizes": {"le": {"a": {"bounds": [], "counts": [1], "sum": 1.0}}}}, "'le' cannot be"),
        ({"sizes": {"a b": {"a": {"bounds": [], "counts": [1], "sum": 1.0}}}}, "'a b' cannot be"),
    ],
)
def test_a_histogram_that_could_not_be_shown_is_left_out_and_the_reason_is_logged(
    broken, why, capsys
):
    assert read_extra_gauges(Measured({"a": 1} | broken)) == Gauges({})
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("values", [None, {"a": "many"}, {"a": None}])
def test_gauges_that_are_none_are_left_out_and_the_reason_is_logged(values, capsys):
    assert read_extra_gauges(Measured(values)) == Gauges({})
    assert "Traceback" in capsys.readouterr().err


def test_only_types_that_keep_owners_apart_get_the_key():
    mock = Mock()
    provide_asker_keys(Holder(mock), "owner", "admin")
    provide_asker_keys(None, "owner", "admin")
    assert mock.mock_calls == []


class Ticked:
    def __init__(self, *beats):
        self.beats = list(beats)
        self.other: Any = None

    def model_thread_beat(self):
        beat = self.beats.pop(0)
        if isinstance(beat, Exception):
            raise beat
        return beat


def test_of_several_model_threads_the_latest_is_told():
    predictor, other = Ticked((1, 0), (5, 9)), Ticked((3, 1), (2, 0))
    predictor.other = other
    read = read_model_threads(predictor)
    assert [read(), read()] == [Beat(3.0, 1.0), Beat(2.0, 0.0)]
    assert read_model_threads(object())() == Beat()


@pytest.mark.parametrize("wrong", [RuntimeError("no clock"), (1,), ("a", "b"), None])
def test_a_model_thread_that_cannot_be_asked_is_asked_no_more(wrong, capsys):
    predictor = Ticked(wrong, (9, 0))
    predictor.other = Ticked((1, 0), (2, 0))
    read = read_model_threads(predictor)
    assert [read(), read()] == [Beat(1.0), Beat(2.0)]
    assert "Traceback" in capsys.readouterr().err


class Ended:
    def __init__(self, error):
        self.error = error

    def fatal_error(self):
        if isinstance(self.error, Exception):
            raise self.error
        return self.error


@pytest.mark.parametrize(
    ("error", "told"),
    [("the card fell off", "the card fell off"), (None, ""), (RuntimeError("broken"), "")],
)
def test_what_ends_the_process_is_in_the_beat(error, told, capsys):
    predictor: Any = Ticked((2, 1))
    predictor.other = Ended(None)
    predictor.runner = Ended(error)
    assert read_model_threads(predictor)() == Beat(2.0, 1.0, told)
    assert read_model_threads(Ended("alone"))() == Beat(fatal="alone")
    assert ("Traceback" in capsys.readouterr().err) == isinstance(error, Exception)
