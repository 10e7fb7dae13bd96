"""The locks have a hash of all that is installed, and the image and CI install by them."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cog_adapt.command.kinds import kinds, written
from tests.cog_adapt.distributions import brought, lines

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^([\w.-]+)==(\S+) \\\n((?: .*\n)+)", re.MULTILINE)
HASHES = re.compile(r"(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+")
OF_PLATFORM = ("torch", "triton", "cuda-", "nvidia-")
ADDED = "iniconfig==2.3.1"


def text_of(name, kind):
    return written(kind, name, (ROOT / name).read_text())


def pins(requirements):
    found = map(Requirement, requirements)
    return {canonicalize_name(one.name): str(one.specifier).removeprefix("==") for one in found}


def pylock():
    return tomllib.loads((ROOT / "pylock.toml").read_text())["packages"]


@pytest.mark.parametrize("kind", kinds())
def test_a_project_has_hashes_of_all_that_its_requirements_bring(kind):
    text, required = text_of("requirements.lock", kind), lines(text_of("requirements.txt", kind))
    blocks = {name: version for name, version, _ in BLOCK.findall(text)}
    assert all(HASHES.fullmatch(each) for *_, each in BLOCK.findall(text))
    assert not lines(BLOCK.sub("", text))
    wanted = pins(required)
    assert wanted.pop("torch")
    assert wanted.items() <= blocks.items()
    found = {name for name in brought(required) if not name.startswith(OF_PLATFORM)}
    assert found <= blocks.keys()
    assert not [name for name in blocks if name.startswith(OF_PLATFORM)]


def test_a_kind_has_no_package_of_another():
    assert "transformers" not in text_of("requirements.lock", "tabular")
    assert "pillow" not in text_of("requirements.lock", "lm")


def test_the_lock_of_ci_has_every_tool_from_the_public_index():
    locked = {each["name"]: each["version"] for each in pylock()}
    wanted = pins(lines((ROOT / "requirements-dev.txt").read_text()))
    wanted |= pins(lines((ROOT / "requirements.txt").read_text()))
    assert wanted.pop("torch")
    assert wanted.items() <= locked.items()
    assert not [name for name in locked if name.startswith(OF_PLATFORM[1:]) or name == "torch"]
    files = [wheel for each in pylock() for wheel in each.get("wheels", [each.get("sdist")])]
    assert all(one["url"].startswith("https://files.pythonhosted.org/packages/") for one in files)
    assert all(re.fullmatch(r"[0-9a-f]{64}", one["hashes"]["sha256"]) for one in files)


def test_both_locks_have_the_same_versions():
    locked = {each["name"]: each["version"] for each in pylock()}
    for kind in kinds():
        text = text_of("requirements.lock", kind)
        assert {name: version for name, version, _ in BLOCK.findall(text)}.items() <= locked.items()


def test_ci_gets_its_pip_by_the_hash_of_the_lock():
    (pip,) = (each for each in pylock() if each["name"] == "pip")
    pin = f"pip=={pip['version']} --hash=sha256:{pip['wheels'][0]['hashes']['sha256']}"
    assert f'"{pin}"' in (ROOT / ".ci" / "locked").read_text()
    assert "\n.ci/locked " in (ROOT / ".ci" / "run").read_text()


def image_command():
    """What the Dockerfile runs to install, in a shell."""
    joined = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^RUN (pip install .*)$", joined, re.MULTILINE)
    return line


@pytest.fixture(params=["image", "make"])
def install(request, tmp_path):
    """Installs a small project with an added line, as the image or `make setup` does."""
    found = BLOCK.finditer((ROOT / "requirements.lock").read_text())
    (block,) = (each for each in found if each[1] == "typing-extensions")
    (tmp_path / "requirements.lock").write_text(block[0])
    (tmp_path / "requirements.txt").write_text(f"{block[1]}=={block[2]}\n{ADDED}\n")
    (tmp_path / "requirements-dev.txt").write_text("-r requirements.txt\n")
    (tmp_path / "requirements-weights.txt").write_text("# None.\n")
    (tmp_path / "cog_adapt.py").touch()  # `python -m cog_adapt weights`
    shutil.copy(ROOT / "Makefile", tmp_path)
    folder = tmp_path / ".venv"
    command = ["make", "setup", f"PYTHON={sys.executable}"]
    path = os.environ["PATH"]
    if request.param == "image":
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        command, path = ["sh", "-c", image_command()], f"{folder}/bin{os.pathsep}{path}"

    def run():
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        names = [each.name for each in folder.glob("lib/*/site-packages/*.dist-info")]
        return done, names

    return tmp_path / "requirements.lock", run


def test_a_file_with_another_hash_is_not_installed_and_a_line_that_is_not_in_the_lock_is(install):
    lock, run = install
    text = lock.read_text()
    lock.write_text(re.sub(r"sha256:\w{4}", "sha256:0000", text))
    done, names = run()
    assert done.returncode != 0
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stdout + done.stderr
    assert not any(name.startswith(("typing_extensions-", "iniconfig-")) for name in names)
    lock.write_text(text)
    done, names = run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{ADDED.replace('==', '-')}.dist-info" in names
    assert any(name.startswith("typing_extensions-") for name in names)
