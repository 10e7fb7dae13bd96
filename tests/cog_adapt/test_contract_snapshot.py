"""What callers, operators and importers see is what `tests/contract_snapshot/data` says."""

import pytest

from tests.contract_snapshot.snapshot import DATA, differences, facts_of_tree, read, write
from tests.version_policy import ROOT, Release, version_of_tree

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


def test_what_the_last_release_promised_is_gone_only_with_a_note_and_a_version():
    notes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    wrong = Release.read().broken(read(DATA), version=version_of_tree(), notes=notes)
    assert wrong == [], "\n".join(wrong)


NOTED = "## Unreleased\n\n- More.\n\n### Breaking\n\n- settings: PORT is gone.\n\n## 0.1.0\n"
EARLIER = "## Unreleased\n\n- More.\n\n## 0.1.0\n\n### Breaking\n\n- settings: PORT is gone.\n"


@pytest.mark.parametrize(
    ("found", "version", "notes", "wrong"),
    [
        (["PORT default 5000", "NEW default 1"], "0.1.0", "", 0),
        (["PORT default 5001"], "0.2.0", NOTED, 0),
        (["PORT default 5001"], "0.1.1", NOTED, 1),
        (["PORT default 5001"], "0.2.0", EARLIER, 1),
        ([], "0.1.0", "", 2),
    ],
)
def test_the_policy_sees_what_is_gone(found, version, notes, wrong):
    release = Release("0.1.0", {"settings": ["PORT default 5000"]})
    said = release.broken({"settings": found}, version=version, notes=notes)
    assert len(said) == wrong
