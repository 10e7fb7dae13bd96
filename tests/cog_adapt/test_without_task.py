"""Without the shipped task, and what belongs to it, the rest of the repository stays green."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cog_adapt.command.test_new import EDITS, TASK

ROOT = Path(__file__).parents[2]
# What is compiled comes along: to compile all again takes longer than the tests.
LEFT_BEHIND = shutil.ignore_patterns(
    *(".git", ".venv*", ".data", ".cog", ".*_cache", ".hypothesis", "*.safetensors", "node_modules")
)
ITS_OWN = ("task.py", "tests/test_*.py", "examples/[!_]*")

FAST = (
    *("test_no_unsafe_loading.py", "test_package.py", "test_readme.py"),
    *("container/test_dockerfile.py", "command/test_new.py", "server/test_cogfile.py"),
)
# in a name: what is run elsewhere too
SLOW = "servers or task or mirror or own_adapts or needs or its_tests_pass"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A copy of the repository without the task."""
    folder = tmp_path_factory.mktemp("copy") / "repository"
    shutil.copytree(ROOT, folder, ignore=LEFT_BEHIND)
    for pattern in ITS_OWN:
        for path in filter(Path.is_file, folder.glob(pattern)):
            path.unlink()
    return folder


def python(folder, *arguments):
    variables = {n: v for n, v in os.environ.items() if not n.startswith(("PYTEST", "PYTHONPATH"))}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return done.stdout


def test_every_test_of_the_package_is_collected(repository):
    frozen = ("-p", "tests.cog_adapt.scheduling")  # the tests are not walked again at the end
    options = ("-m", "pytest", "-q", "--collect-only", *frozen, "-p", "no:cacheprovider")
    assert "tests collected" in python(repository, *options, "tests/cog_adapt")


def test_with_another_task_in_its_place_the_rest_stays_green(repository):
    (repository / "task.py").write_text(TASK)
    for door in ("predict.py", "train.py"):
        text = (repository / door).read_text()
        for old, own in EDITS.items():
            text = text.replace(old, own)
        (repository / door).write_text(text)
    files = [f"tests/cog_adapt/{name}" for name in FAST]
    options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", f"not ({SLOW})")
    assert "passed" in python(repository, *options, *files)
