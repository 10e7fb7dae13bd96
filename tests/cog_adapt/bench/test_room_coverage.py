"""Coverage by room: which tests a room has, and how its figures are summed up."""

from pathlib import Path

import pytest

from bench.house import room_coverage

ROOT = Path(__file__).parents[3]


def test_a_room_has_its_folder_of_tests_and_one_without_a_folder_those_of_its_root():
    assert room_coverage.tests_of(["runner/heads"]) == ["tests/cog_adapt/runner/heads"]
    whole = room_coverage.tests_of(["runner"])
    assert room_coverage.tests_of(["runner/task"]) == whole
    assert {"tests/cog_adapt/runner", "tests/cog_adapt/decoders"} <= {*whole}
    assert [path for path in room_coverage.tests_of([]) if not (ROOT / path).exists()] == []
    with pytest.raises(SystemExit, match="there is no room 'kitchen'"):
        room_coverage.tests_of(["kitchen"])
    with pytest.raises(SystemExit, match="no room 'server/recrods'"):
        room_coverage.tests_of(["server/recrods"])


def test_the_figures_of_a_room_are_those_of_its_files():
    def entry(reached: int, whole: int) -> object:
        lines = {"num_statements": whole, "covered_lines": reached}
        return {"summary": {**lines, "num_branches": 10, "covered_branches": 10}}

    files = {
        "cog_adapt/runner/heads/a.py": entry(40, 50),
        "cog_adapt/runner/heads/b.py": entry(30, 30),
        "cog_adapt/runner/config.py": entry(9, 10),
        "cog_adapt/machine.py": entry(0, 10),
    }
    top, heads = room_coverage.rooms_of({"files": files})
    assert (top.name, heads.name) == ("runner", "runner/heads")
    assert (heads.percent, heads.missing) == (90.0, {"a.py": 10})
    assert room_coverage.table_of([heads]).endswith("| runner/heads | 90.0 % | below | `a.py` 10 |")
    assert room_coverage.room_of("cog_adapt/server/records/store.py") == "server/records"
