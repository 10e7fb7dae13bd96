"""What callers, operators and importers see is what `tests/contract_snapshot/data` says."""

import pytest

from tests.contract_snapshot.snapshot import DATA, differences, facts_of_tree, read, write

ACCEPT = """\
The contract of this tree differs from tests/contract_snapshot/data (- kept, + this tree):

{}

If that is wanted: `python -m tests.contract_snapshot`, review `git diff`, and say in CHANGELOG.md
what changed for users."""


def test_the_contract_is_the_one_that_is_kept():
    pytest.importorskip("task", reason="the contract is that of the shipped doors")
    found = differences(read(DATA), facts_of_tree())
    assert not found, ACCEPT.format(found)


def test_what_is_written_is_read_again_and_each_difference_is_told(tmp_path):
    (tmp_path / "gone.txt").write_text("of a part that is no more\n")
    kept = {"routes": ["/ GET | 200", "/docs GET | 200"], "settings": ["PORT default 5000"]}
    write(kept, tmp_path)
    assert read(tmp_path) == kept
    assert differences(kept, kept) == ""
    told = differences(kept, {"routes": ["/ GET | 200", "/doc GET | 200"], "metrics": ["new"]})
    for line in ("-/docs GET | 200", "+/doc GET | 200", "-PORT default 5000", "+new"):
        assert line in told.splitlines()
    assert "/ GET | 200" not in told


def test_the_snapshot_stays_short():
    files = [*DATA.parent.glob("*.py"), *DATA.glob("*.txt")]
    assert sum(len(file.read_text("utf-8").splitlines()) for file in files) <= 2_000
