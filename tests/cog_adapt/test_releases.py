"""What a release hands out: wheels that are built alike twice, what is in the image, its faults."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKER = '#!/bin/sh\nwhile [ "$1" != -c ]; do shift; done\nexec sh -c "$2"\n'
"""Runs here what `docker run … -c` would run in a container."""


def run(*command, **variables):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def copied(folder):
    """The repository's files at another place, with other times and rights."""
    names = run("git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copyfile(ROOT / name, folder / name)
            is_program = (ROOT / name).stat().st_mode & 0o100  # git keeps this bit alone
            (folder / name).chmod(0o700 if is_program else 0o600)
    return folder


def built(source, folder):
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, source)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.parametrize("part", [".", "gradient_check"])
def test_two_builds_give_the_same_wheel_byte_for_byte(part, tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout: clone the repository")
    first = built(ROOT / part, tmp_path / "first")
    second = built(copied(tmp_path / "other") / part, tmp_path / "second")
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_the_bill_of_materials_has_what_is_installed_and_no_tool(tmp_path):
    """The command itself; the container suite runs it in the image."""
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    there = ("--python", tmp_path / "venv")
    run(sys.executable, "-m", "pip", *there, "install", "-q", "iniconfig==2.3.1")
    path = os.pathsep.join([str(tmp_path), str(tmp_path / "venv" / "bin"), os.environ["PATH"]])
    bill = tmp_path / "made" / "sbom.json"
    run("make", "sbom", f"SBOM={bill}", PATH=path)  # the tool checks it by CycloneDX's schema
    made = json.loads(bill.read_text())
    assert made["bomFormat"] == "CycloneDX"
    versions = {each["name"]: each["version"] for each in made["components"]}
    assert versions == {"iniconfig": "2.3.1"}


def test_known_faults_are_asked_for_all_that_is_locked_and_for_pytorch():
    """Without a database: what would be asked is read."""
    if not importlib.util.find_spec("pip_audit"):
        pytest.skip("pip-audit is not installed: `make setup`")
    stamp = f"{sys.prefix}/.installed"
    shown = run("make", "-o", stamp, "audit", f"VENV={sys.prefix}", "AUDIT=--dry-run", "-n")
    assert shown.count("pip-audit") == 2
    run("make", "-o", stamp, "audit", f"VENV={sys.prefix}", "AUDIT=--dry-run")
