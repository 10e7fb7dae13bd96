"""A task is loaded from a file; each mistake in it is a sentence with its line."""

from pathlib import Path

import pytest

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import ConfigError, RunnerError
from cog_adapt.runner.selftest.task_file import load_model, load_task
from tests.cog_adapt.devices import DEVICE

OWN = "from tests.cog_adapt.models import Images\nfrom cog_adapt import Task\n"
MISTAKES = {
    "no module": ("import no_such_module\n", "", "ModuleNotFoundError.*import no_such_module"),
    "syntax": ("def f(:\n", "", r"SyntaxError.*broken[.]py:1: def f[(]:"),
    "raises": ("x = 1 / 0\n", "", "ZeroDivisionError.*x = 1 / 0"),
    "no class": (f"{OWN}class Own(Images):\n    pass\n", ":Onw", "has no class 'Onw'. .*mean Own"),
    "none at all": ("", ":Own", "has no class 'Own'. Its tasks: none"),
    "no task": ("Own = dict\n", ":Own", "is no subclass"),
    "none": ("x = 1\n", "", "defines none; one subclass"),
    "several": (
        f"{OWN}class A(Images):\n    pass\nclass B(Images):\n    pass\n",
        "",
        "defines A, B; one subclass",
    ),
    "abstract": (
        f"{OWN}class Own(Task):\n    def load(self):\n        return 3\n",
        "",
        "Own in .* lacks encode, loss, predict, probe",
    ),
    "arguments": (
        f"{OWN}class Own(Images):\n    def __init__(self, width):\n        pass\n",
        "",
        "asks for width, but a task is built without arguments",
    ),
    "constructor": (
        f"{OWN}class Own(Images):\n    def __init__(self):\n        self.a = {{}}['a']\n",
        ":Own",
        r"Own[(][)] failed: KeyError.*self.a = ",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_in_the_file_is_one_sentence(tmp_path: Path, case: str) -> None:
    text, name, reason = MISTAKES[case]
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"(?s){reason}"):
        load_task(f"{path}{name}")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file 'gone.py' in /.*name another"):
        load_task("gone.py:Own")
    (tmp_path / "task.txt").touch()
    with pytest.raises(ConfigError, match="names no Python file"):
        load_task(f"{tmp_path / 'task.txt'}:Own")


LOADS = {
    "raises": ("        raise OSError('no disk')\n", "OSError: no disk.*raise OSError"),
    "a state dict": ("        return super().load().state_dict()\n", "load returned a OrderedDict"),
}


@pytest.mark.parametrize("case", LOADS)
def test_a_mistake_in_load_is_one_sentence(tmp_path: Path, case: str) -> None:
    text, reason = LOADS[case]
    path = tmp_path / "loading.py"
    path.write_text(f"{OWN}class Own(Images):\n    def load(self):\n{text}")
    with pytest.raises(RunnerError, match=f"(?s){reason}"):
        load_model(load_task(str(path)), RunnerSettings(device=DEVICE))


def test_a_task_is_loaded_with_its_model(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(f"{OWN}class Own(Images):\n    pass\n")
    task = load_task(str(path))
    assert type(task).__name__ == "Own"
    assert load_model(task, RunnerSettings(device=DEVICE)).task is task
