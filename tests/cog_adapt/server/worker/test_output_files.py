"""The files that a run puts out: what it made in the temporary folder goes with it."""

import base64
import functools
import os
import tempfile
import time

import pytest

from cog_adapt.server.worker.output_files import OutputFiles
from cog_adapt.server.worker.uploads import DataUrls, FileContent

WHERE = """
import os, tempfile, time
from pathlib import Path
from typing import Any
import cog
"""


@pytest.fixture
def temp(tmp_path, monkeypatch):
    """The temporary folder."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def put_out():
    """Put files out in one run, then end it; kept folders may be named."""

    def run(*paths, kept=()):
        files = OutputFiles(DataUrls(), kept)
        for path in paths:
            files.link(FileContent.of(path))
        files.remove()

    return run


def made(path, content="x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_what_lies_in_the_temporary_folder_is_removed_at_any_depth(temp, put_out):
    paths = made(temp / "a.txt"), made(temp / "one" / "two" / "b.txt")
    put_out(*paths)
    assert not any(path.exists() for path in paths)
    assert (temp / "one" / "two").is_dir()


def test_nothing_is_removed_before_the_end_of_the_run(temp):
    files, path = OutputFiles(DataUrls()), made(temp / "a.txt")
    assert files.link(FileContent.of(path)) == files.link(FileContent.of(path))
    assert path.exists()
    files.remove()
    assert not path.exists()
    files.remove()


def test_an_open_file_is_one_too_and_one_in_memory_is_none(temp, put_out):
    path = made(temp / "a.txt")
    with path.open("rb") as opened:
        put_out(opened)
    assert not path.exists()
    with tempfile.TemporaryFile(dir=temp) as nameless:
        put_out(nameless)


def test_what_lies_elsewhere_stays(temp, tmp_path, put_out):
    beside = made(tmp_path / "temporary-not" / "a.txt")
    by_dots = temp / ".." / "temporary-not" / "a.txt"
    put_out(beside, by_dots)
    assert beside.exists()


def test_a_link_that_leads_out_of_the_folder_stays_and_so_does_its_target(temp, tmp_path, put_out):
    outside = made(tmp_path / "outside" / "a.txt")
    link, folder = temp / "link.txt", temp / "folder"
    link.symlink_to(outside)
    folder.symlink_to(outside.parent)
    put_out(link, folder / "a.txt")
    assert link.is_symlink()
    assert folder.is_symlink()
    assert outside.exists()


def test_a_link_inside_goes_with_its_target_and_one_outside_stays(temp, tmp_path, put_out):
    inside, outside = temp / "link.txt", tmp_path / "link.txt"
    inside.symlink_to(made(temp / "a.txt"))
    outside.symlink_to(made(temp / "b.txt"))
    put_out(inside, outside)
    assert os.listdir(temp) == []
    assert outside.is_symlink()


def test_the_folder_may_itself_be_behind_a_link(temp, tmp_path, monkeypatch, put_out):
    (tmp_path / "alias").symlink_to(temp)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "alias"))
    put_out(made(tmp_path / "alias" / "a.txt"))
    assert os.listdir(temp) == []


def test_what_is_older_than_the_run_stays(temp, put_out):
    path = made(temp / "of_setup.txt")
    time.sleep(0.1)
    put_out(path)
    assert path.exists()


def test_an_old_time_of_a_new_file_does_not_keep_it(temp, put_out):
    path = made(temp / "copied.txt")
    os.utime(path, (1, 1))
    put_out(path)
    assert not path.exists()


def test_folders_that_the_predictor_keeps_stay_full(temp, put_out):
    kept = made(temp / "weights" / "adapters" / "a.bin")
    put_out(kept, kept=[temp / "weights"])
    assert kept.exists()


def test_a_working_directory_inside_the_temporary_folder_is_kept(temp, monkeypatch, put_out):
    path = made(temp / "project" / "a.txt")
    monkeypatch.chdir(temp / "project")
    put_out(path, os.path.relpath(path) and path)
    assert path.exists()
    monkeypatch.chdir(temp)  # the folder itself is nobody's project
    put_out(path)
    assert not path.exists()


def test_what_the_run_has_removed_or_replaced_itself_is_no_error(temp):
    files = OutputFiles(DataUrls())
    gone, ring = made(temp / "gone"), made(temp / "ring")
    for path in (gone, ring):
        files.link(FileContent.of(path))
        path.unlink()
    ring.symlink_to(ring)
    files.remove()
    assert ring.is_symlink()


SOURCES = {
    "sync": """
class Runner(cog.BasePredictor):
    def setup(self):
        self.folder = Path(tempfile.mkdtemp())
    def kept_folders(self):
        return [self.folder]
    def run(self, where: str = "", how: str = "path", times: int = 1) -> Any:
        path = Path(where or self.folder / "a.txt"); path.write_text(str(path))
        if how == "fail": raise ValueError
        if how == "nan": return [path, float("nan")]
        if how == "dict": return {"a": path, "b": {"c": path}}
        if how == "generator": return (path for _ in range(times))
        return [path] * times if times > 1 else path
""",
    "async": """
class Runner:
    async def run(self, where: str, how: str = "path", times: int = 1) -> Any:
        path = Path(where); path.write_text(str(path))
        if how == "generator": return (each async for each in self.of(path, times))
        return [path] * times if times > 1 else path
    async def of(self, path, times):
        for _ in range(times): yield path
""",
}


def sent(path):
    return f"data:text/plain;base64,{base64.b64encode(str(path).encode()).decode()}"


@pytest.fixture(scope="module")
def runs(launch):
    """A process of each kind of run, started by the first test that asks for it."""
    return functools.cache(lambda kind: launch(WHERE + SOURCES[kind]))


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("how", ["path", "generator"])
@pytest.mark.parametrize("times", [1, 3])
def test_each_kind_of_run_sends_every_use_of_a_file_and_then_removes_it(
    runs, tmp_path_factory, kind, how, times
):
    path = tmp_path_factory.mktemp("out") / "a.txt"
    output = runs(kind).run(where=str(path), how=how, times=times).output
    assert (output if isinstance(output, list) else [output]) == [sent(path)] * times
    assert not path.exists()


@pytest.mark.parametrize(("how", "stays"), [("dict", False), ("nan", False), ("fail", True)])
def test_a_failed_run_loses_what_it_had_put_out(runs, tmp_path_factory, how, stays):
    path = tmp_path_factory.mktemp("out") / "a.txt"
    runs("sync").run(where=str(path), how=how)
    assert path.exists() is stays


def test_a_folder_that_the_predictor_keeps_is_asked_for_after_setup(runs):
    kept = base64.b64decode(runs("sync").run().output.partition(",")[2]).decode()
    assert os.path.exists(kept)
