"""The package as `pip install` gives it: built, put into an empty environment, and used there."""

import contextlib
import email
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import httpx2
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from cog_adapt.command.kinds import KERNEL, kept_files, kinds, written, zone
from tests.cog_adapt.contract.serving import free_port
from tests.cog_adapt.waiting import wait_until

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FILES = {
    "predict.py": "import rich, runner\n"
    "def run(text: str = '') -> str: return text + runner.VALUE + rich.VALUE\n",
    "cog.yaml": "run: predict.py:run\n",
    "server.py": "raise RuntimeError('the folder has its own server')\n",
    "runner/__init__.py": "VALUE = ' by a runner'\n",
    "rich.py": "VALUE = ' and a rich'\n",
}


def run(*command, folder, **variables):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def environment(**variables):
    """Without what points at this repository or steers Cog."""
    own = ("COG_", "PYTHON", "PYTEST", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return kept | variables


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT, folder=folder)
    (built,) = folder.glob("*.whl")
    return built


def test_it_has_every_file_of_the_page_as_it_is_built(wheel):
    page = ROOT / "cog_adapt" / "server" / "page"
    built = {path.relative_to(ROOT).as_posix() for path in page.rglob("*") if path.is_file()}
    assert built <= set(zipfile.ZipFile(wheel).namelist())


def pip(environment):
    """This environment's pip, for another one: to install a pip into each takes longer."""
    return sys.executable, "-m", "pip", "--python", environment


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The `bin` of an environment that has the wheel, and what it asks for, and nothing else."""
    folder = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", folder=folder)
    run(*pip(folder / "venv"), "install", "-q", wheel, folder=folder)
    return folder / "venv" / "bin"


@pytest.fixture
def crowded(tmp_path):
    """The folder of a predictor whose files have the names of the package's parts."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_it_holds_the_package_and_the_owners_files_alone(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {
        "cog_adapt",
        "gradient_check",  # of no index yet, so it comes along
        f"cog_adapt-{PROJECT['version']}.dist-info",
    }
    template = {name.removeprefix("cog_adapt/template/") for name in names if "/template/" in name}
    assert template == {name for _, name in kept_files()}
    sources = {name for name in names if name.startswith("cog_adapt/") and "/template/" not in name}
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "cog_adapt").rglob("*.py")} <= sources
    kernel = {path.relative_to(ROOT).as_posix() for path in KERNEL.rglob("*.py")}
    left_out = tuple(f"gradient_check/{each}/" for each in ("exam", "tests"))
    shipped = {name for name in kernel if not name.startswith(left_out)}
    assert {name for name in names if name.startswith("gradient_check/")} == shipped
    assert not [name for name in names if "__pycache__" in name]


def test_installers_of_an_older_python_are_told_which_ones_it_is_for(wheel):
    """Else they go on to PyTorch, and say that there is none."""
    built = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in built.namelist() if name.endswith(".dist-info/METADATA"))
    required = email.message_from_bytes(built.read(metadata))["Requires-Python"]
    pythons = ("3.9", "3.10", "3.11", "3.12")
    assert [*SpecifierSet(required).filter(pythons)] == ["3.11", "3.12"]


def test_in_an_empty_environment_it_serves_a_predictor_without_torch(installed, crowded):
    assert "torch" not in run(*pip(installed.parent), "list", folder=crowded)
    port = free_port()
    with (crowded / "log").open("wb") as log:
        process = subprocess.Popen(
            [installed / "cog-adapt", "serve", "--host", "127.0.0.1"],
            cwd=crowded,
            env=environment(PORT=str(port)),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            wait_until_ready(client, process, crowded / "log")
            answer = client.post("/predictions", json={"input": {"text": "served"}}).json()
    finally:
        process.terminate()
        process.wait(30)
    assert answer["status"] == "succeeded", answer
    assert answer["output"] == "served by a runner and a rich"


def wait_until_ready(client, process, log):
    def is_ready():
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(httpx2.TransportError):
            return client.get("/readyz").status_code == 200
        return False

    wait_until(is_ready, 90, log.read_text)


def test_it_predicts_once_and_prints_the_document(installed, crowded):
    said = run(installed / "cog-adapt", "predict", "-i", "text=said", folder=crowded)
    assert said == "said by a runner and a rich\n"
    assert '"openapi": "3.0.2"' in run(installed / "cog-adapt", "openapi", folder=crowded)


def test_it_writes_a_new_project_of_each_kind(installed, tmp_path):
    for kind in kinds()[1:]:
        run(installed / "cog-adapt", "new", kind, "--kind", kind, folder=tmp_path)
        for _, name in zone(kind):
            assert (tmp_path / kind / name).exists(), name


def test_it_writes_a_new_project(installed, tmp_path):
    run(installed / "cog-adapt", "new", "project", folder=tmp_path)
    for path, name in zone():
        assert (tmp_path / "project" / name).read_bytes() == path.read_bytes()
    assert (tmp_path / "project" / "gradient_check" / "phases" / "modes.py").exists()
    for left_out in ("docs", "exam", "tests"):
        assert not (tmp_path / "project" / "gradient_check" / left_out).exists()
    assert not (tmp_path / "project" / "cog_adapt" / "template").exists()


def pins(kind):
    """The requirements of a new project, by name."""
    text = written(kind, "requirements.txt", (ROOT / "requirements.txt").read_text())
    return names_of(line for line in text.splitlines() if not line.startswith("#"))


def names_of(requirements):
    return {canonicalize_name(one.name): str(one) for one in map(Requirement, requirements)}


def extra(name):
    """What an extra installs, by name, that of the extras which it names too."""
    found = names_of(PROJECT["optional-dependencies"][name])
    for inner in Requirement(found.pop("cog-adapt", "none")).extras:
        found |= extra(inner)
    return found


@pytest.mark.parametrize("kind", kinds())
def test_an_extra_installs_the_versions_that_were_tested(kind):
    own = extra(kind)
    assert names_of(PROJECT["dependencies"]) | own == pins(kind)
    assert all("==" in each for each in own.values())
    assert extra("all").items() >= own.items()


def test_what_adapts_is_an_extra():
    assert extra("adapt") == extra("text")
    assert not {*extra("all")} & {*names_of(PROJECT["dependencies"])}
    assert "transformers" not in extra("tabular").keys() | extra("image").keys()
