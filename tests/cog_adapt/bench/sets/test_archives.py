"""A package is downloaded by its registry's client, alone, and is used by its hash only."""

import hashlib
import subprocess

import pytest

from bench.sets import archives
from bench.sets.archives import Archive
from bench.sets.unseen import sources

CONTENTS = b"contents"
DIGEST = hashlib.sha256(CONTENTS).hexdigest()
PIP = Archive("pip", "one==1", "one.whl", DIGEST, "MIT")
NPM = Archive("npm", "one@1", "one-1.tgz", DIGEST, "MIT")
DEBIAN = Archive("apt", "one=1", "one_1_all.deb", DIGEST, "GPL")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "CACHE", tmp_path)
    return tmp_path


@pytest.fixture
def commands(folder, monkeypatch):
    """Record the commands that would download; each leaves the file."""
    found = []

    def downloaded(command, **settings):
        found.append(command)
        for archive in (PIP, NPM, DEBIAN):
            (folder / archive.file).write_bytes(CONTENTS)

    monkeypatch.setattr(subprocess, "run", downloaded)
    return found


@pytest.mark.parametrize("archive", [PIP, NPM, DEBIAN], ids=lambda each: each.registry)
def test_a_missing_package_is_downloaded_once(archive, commands, folder):
    assert archive.path() == folder / archive.file
    assert archive.requirement in " ".join(commands[-1]) or archive is PIP
    count = len(commands)
    archive.path()
    assert len(commands) == count


def test_a_python_package_is_downloaded_by_its_hash_and_alone(commands, folder):
    PIP.path()
    assert {"--require-hashes", "--no-deps"} < set(commands[0])
    assert f"one==1 --hash=sha256:{DIGEST}" in (folder / "requirement.txt").read_text()


def test_other_contents_are_refused(folder):
    (folder / DEBIAN.file).write_bytes(b"others")
    with pytest.raises(SystemExit, match=f"{DIGEST} is expected"):
        DEBIAN.path()


def test_a_failed_download_says_what_to_do(monkeypatch):
    def refused(command, **settings):
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(subprocess, "run", refused)
    with pytest.raises(SystemExit, match=r"one@1 cannot be had.*put one-1\.tgz into"):
        NPM.path()


def test_each_package_has_a_version_a_hash_and_a_licence():
    packages = [each for each in vars(sources).values() if isinstance(each, Archive)]
    assert len(packages) > 10
    for each in packages:
        assert "=" in each.requirement or "@" in each.requirement[1:]
        assert len(each.digest) == 64
        assert each.licence
