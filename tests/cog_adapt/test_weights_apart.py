"""What tests start keeps its adapters, checkpoints and passes outside the tree."""

import subprocess
import sys
from pathlib import Path

from cog_adapt.runner.config import RunnerSettings

ROOT = Path(__file__).parents[2]
ASKED = """
from cog_adapt.runner.config import RunnerSettings
print(RunnerSettings.from_environment().weights_dir)
"""


def test_weights_of_a_test_are_not_those_of_the_tree():
    folder = RunnerSettings.from_environment().weights_dir.resolve()
    assert folder != (ROOT / "weights").resolve()
    assert ROOT not in folder.parents


def test_a_process_that_a_test_starts_has_the_same_folder():
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == RunnerSettings.from_environment().weights_dir
