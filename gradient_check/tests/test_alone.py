"""These tests need nothing of the checkout that they lie in; `alone.py` runs all of them so."""

from pathlib import Path

from gradient_check.tests import alone, clean

OTHERS = ("cog_adapt", "server", "bench", "tests", "transformers", "pydantic")
SEEN = f"from importlib.util import find_spec; print([n for n in {OTHERS} if find_spec(n)])"
A_FEW = "DetachedInPlace or KeepsMetrics or a_fault_wants or sealed_is"


def test_all_files_are_read_and_a_few_tests_pass_without_this_checkout(tmp_path: Path) -> None:
    python, place = alone.copied(tmp_path)
    assert clean.run(python, "-c", SEEN, folder=place).stdout == "[]\n"
    done = clean.run(python, *alone.PYTEST, "-k", A_FEW, folder=place)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
