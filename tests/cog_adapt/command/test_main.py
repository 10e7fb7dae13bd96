"""The command `cog-adapt`, in folders whose files have the names of other modules."""

import os
import re
import subprocess
import sys
import venv

import pytest

from cog_adapt.command.main import COMMANDS
from tests.cog_adapt.server.command.conftest import ROOT

HIDING = ("server", "typing", "random", "logging", "socket", "yaml", "fastapi")
PREDICTOR = "import rich, runner\ndef run() -> str: return runner.VALUE + rich.VALUE\n"


def cog_adapt(folder, *arguments, **variables):
    """The command as a process, in a folder; the package is found by PYTHONPATH."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COG_")}
    return subprocess.run(
        [sys.executable, "-m", "cog_adapt", *arguments],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def crowded(tmp_path):
    """The folder of a predictor whose files have the names of what the server imports."""
    (tmp_path / "runner").mkdir()
    (tmp_path / "runner" / "__init__.py").write_text("VALUE = 'a'")
    (tmp_path / "rich.py").write_text("VALUE = 'b'")
    for name in HIDING:
        (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('the folder has its own {name}')")
    (tmp_path / "predict.py").write_text(PREDICTOR)
    (tmp_path / "cog.yaml").write_text("run: predict.py:run\n")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "printed"), [("predict", "ab"), ("openapi", '"openapi": "3.0.2"'), ("key", "key")]
)
def test_no_file_of_the_folder_hides_a_module_of_ours(crowded, command, printed):
    done = cog_adapt(crowded, command, *(["somebody"] if command == "key" else []))
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout


def test_the_help_names_every_command(tmp_path):
    for arguments in ([], ["--help"]):
        done = cog_adapt(tmp_path, *arguments)
        assert done.returncode == 0
        assert [line.split()[0] for line in done.stdout.splitlines()[2:]] == [*COMMANDS]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_under_its_name(tmp_path, command):
    done = cog_adapt(tmp_path, command, "--help", NO_COLOR="1")
    assert done.returncode == 0, done.stderr
    assert re.match(rf"\s*usage: .*cog.adapt {command} ", done.stdout, re.IGNORECASE)


def test_another_word_is_refused(tmp_path):
    done = cog_adapt(tmp_path, "sevre")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: 'sevre' is no command; allowed: {', '.join(COMMANDS)}.\n"


def test_in_a_project_its_own_environment_and_package_are_used(tmp_path):
    venv.create(tmp_path / ".venv", with_pip=False)
    (tmp_path / "cog_adapt").mkdir()
    (tmp_path / "cog_adapt" / "__init__.py").touch()
    (tmp_path / "cog_adapt" / "__main__.py").write_text(
        "import sys\nprint(sys.prefix, *sys.argv[1:])\n"
    )
    command = [sys.executable, "-P", "-m", "cog_adapt"]  # as the installed script
    for asked in (["doctor"], ["selftest", "-v"]):
        done = subprocess.run(
            [*command, *asked],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.split() == [str(tmp_path / ".venv"), *asked], done.stderr
        assert done.stderr == "in this project's environment: .venv/bin/python -m cog_adapt\n"


def test_a_command_that_needs_no_project_stays_in_its_environment(tmp_path):
    venv.create(tmp_path / ".venv", with_pip=False)
    (tmp_path / "cog_adapt").mkdir()
    done = cog_adapt(tmp_path, "new", "--help", PYTHONSAFEPATH="1")
    assert (done.returncode, done.stderr) == (0, "")


TASK = """
from cog_adapt import Task
from neighbour import Shape


class Kind(Task):
    pass


class Own(Shape, Kind):
    pass
"""


def test_selftest_takes_the_one_task_of_the_folder(tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "neighbour.py").write_text("from tests.cog_adapt.models import Images as Shape")
    done = cog_adapt(tmp_path, "selftest", DEVICE="cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "there is no file 'task.py' in "),
        ("from cog_adapt import Task\n", "task.py defines none"),
        (TASK + "\n\nclass Other(Own):\n    pass\n", "task.py defines Own, Other"),
    ],
)
def test_selftest_without_one_task_says_what_to_name(tmp_path, text, reason):
    if text:
        (tmp_path / "task.py").write_text(text)
    (tmp_path / "neighbour.py").write_text("from tests.cog_adapt.models import Images as Shape")
    done = cog_adapt(tmp_path, "selftest", DEVICE="cpu", COLUMNS="300")
    assert done.returncode == 1
    assert f"ConfigError: {reason}" in done.stdout
