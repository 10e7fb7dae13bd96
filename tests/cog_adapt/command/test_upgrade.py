"""`cog-adapt upgrade`: a project that an older version wrote runs with this one."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from cog_adapt.command import upgrade
from cog_adapt.server.errors import ConfigError
from tests.cog_adapt.command.test_new import environment, run

ROOT = Path(__file__).parents[3]
MADE = ROOT / "tests" / "cog_adapt" / "data" / "project_at_f7a21a1.tar.gz"
"""Written by `cog-adapt new` of that commit; of its package the front alone, to keep it small."""


def unpacked(folder):
    with tarfile.open(MADE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def project(tmp_path):
    return unpacked(tmp_path / "project")


def sources(folder):
    left_out = {folder / "gradient_check" / each for each in ("exam", "tests")}
    packages = (folder / "cog_adapt", folder / "gradient_check")
    found = (path for package in packages for path in package.rglob("*.py"))
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in found if not left_out & {*p.parents}
    }


def test_one_command_gives_a_project_of_f7a21a1_both_packages_and_its_image_too(project):
    files = (path for path in project.rglob("*") if path.is_file())
    own = {p: p.read_bytes() for p in files if "cog_adapt" not in p.relative_to(project).parts}
    shown = run(["-m", "cog_adapt", "upgrade", str(project)], ROOT)
    assert sources(project) == sources(ROOT)
    assert (
        "COPY gradient_check gradient_check\nCOPY cog_adapt cog_adapt\n"
        in (project / "Dockerfile").read_text()
    )
    changed = {path.name for path, before in own.items() if path.read_bytes() != before}
    assert changed == {"Dockerfile", "pyproject.toml", "test_task.py"}
    assert shown.count("replaced: ") == 2
    assert not [path.name for path in project.iterdir() if path.name.startswith(".cog_adapt")]


def test_the_upgraded_project_proves_its_gradients_and_passes_its_own_tests(project):
    run(["-m", "cog_adapt", "upgrade", str(project)], ROOT)
    shown = run(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_task.py"], project)
    assert " passed" in shown


def test_a_second_upgrade_changes_nothing(project):
    assert len(list(upgrade.upgrade_project(project))) == 5
    dockerfile = (project / "Dockerfile").read_bytes()
    assert len(list(upgrade.upgrade_project(project))) == 2
    assert (project / "Dockerfile").read_bytes() == dockerfile


def test_an_upgrade_that_was_cut_off_between_old_and_new_goes_on(project):
    (project / "cog_adapt").rename(project / ".cog_adapt.old")
    (project / ".cog_adapt.new").mkdir()
    list(upgrade.upgrade_project(project))
    assert sources(project) == sources(ROOT)
    assert not [path.name for path in project.iterdir() if path.name.startswith(".cog_adapt")]


def test_a_link_to_a_package_is_replaced_and_what_it_points_to_stays(project, tmp_path):
    (project / "cog_adapt").rename(tmp_path / "elsewhere")
    (project / "cog_adapt").symlink_to(tmp_path / "elsewhere")
    list(upgrade.upgrade_project(project))
    assert not (project / "cog_adapt").is_symlink()
    assert sources(project) == sources(ROOT)
    assert (tmp_path / "elsewhere" / "__init__.py").exists()
    assert not [path.name for path in project.iterdir() if path.name.startswith(".cog_adapt")]


def test_a_dockerfile_of_ones_own_is_left_and_said(project):
    (project / "Dockerfile").write_text("FROM scratch\n")
    said = list(upgrade.upgrade_project(project))
    assert [line for line in said if line.startswith("left to you: ") and "Dockerfile" in line]
    assert (project / "Dockerfile").read_text() == "FROM scratch\n"


def test_what_is_no_project_or_the_packages_own_folder_is_refused_in_words(tmp_path):
    with pytest.raises(
        ConfigError, match=r"is no project: it has no cog.yaml and cog_adapt/\. Name"
    ):
        list(upgrade.upgrade_project(tmp_path))
    with pytest.raises(ConfigError, match="holds the packages that run this command"):
        list(upgrade.upgrade_project(ROOT))
    done = subprocess.run(
        [sys.executable, "-m", "cog_adapt", "upgrade", str(tmp_path)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {tmp_path} is no project")
