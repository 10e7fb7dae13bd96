"""The report of a device counts what ran, and is never that of a stand-in."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bench.gpu.__main__ import ROOT, counted, device_facts
from bench.gpu.steps import Crossings

NO_CARD = pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device answers here")
XML = """<testsuites><testsuite>
<testcase classname="a" name="one"/>
<testcase classname="a" name="two"><skipped/></testcase>
<testcase classname="a" name="three"><failure/></testcase>
<testcase classname="a" name="four"><error/></testcase>
</testsuite></testsuites>"""


def test_tests_are_counted():
    assert counted(XML) == {
        "passed": 1,
        "failed": 2,
        "skipped": 1,
        "failures": ["a::three", "a::four"],
    }


@NO_CARD
def test_without_a_device_one_sentence_is_said_and_nothing_written(tmp_path):
    output = tmp_path / "gpu.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench.gpu", "--output", str(output)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == (
        "No CUDA device answers here, so nothing was run and nothing written.\n"
    ), done.stderr
    assert done.returncode == 1
    assert not output.exists()


@pytest.mark.gpu
def test_the_stand_in_is_never_called_a_card(monkeypatch):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device answers here")
    facts = device_facts()
    is_card = facts["kind"] == "card"
    assert is_card is not facts["name"].startswith("stand-in")
    assert is_card is not ("nothing here was tested on a GPU" in facts["kind"])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device answers here")
def test_crossings_are_counted_by_their_direction():
    with Crossings() as crossings:
        held = torch.ones(3).to("cuda")
        assert (held.cpu() + held.sum().item()).tolist() == [4.0, 4.0, 4.0]
    assert (crossings.reads, crossings.uploads) == (2, 1)


def test_the_recipe_for_a_card_writes_where_the_documents_look():
    recipes = Path(ROOT / "package.mk").read_text()
    assert "bench.gpu --output docs/results/gpu.json" in recipes
