"""Processes on one folder: they keep one budget of bytes, and give each version once."""

from functools import partial

from tests.cog_adapt.runner.storage.made import adapter_of
from tests.cog_adapt.runner.storage.other_process import (
    at_once,
    fill,
    given_versions,
    name_all,
    sizes_in,
)

EACH = 40


def test_two_processes_keep_one_budget_of_bytes(tmp_path):
    size = len(adapter_of(1).to_bytes())
    at_once(partial(fill, tmp_path, 10 * size, EACH))
    assert len(sizes_in(tmp_path)) == 10


def test_two_processes_give_each_version_once(tmp_path):
    folders = [tmp_path, tmp_path]
    at_once(partial(name_all, folders, None, EACH))
    assert given_versions(folders) == [*range(1, 2 * EACH + 1)]
