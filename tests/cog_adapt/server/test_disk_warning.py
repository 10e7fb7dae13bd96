"""A budget of disk beyond the disk is named at the start."""

import structlog

from cog_adapt.machine import free_disk_bytes
from cog_adapt.server.process.disk_warning import warn_of_disk
from cog_adapt.server.settings import Settings


def warnings(tmp_path, disk_bytes):
    with structlog.testing.capture_logs() as logs:
        warn_of_disk(Settings(data_dir=tmp_path, disk_bytes=disk_bytes))
    return logs


def test_more_than_the_disk_has_room_for_is_named(tmp_path):
    (told,) = warnings(tmp_path, 2**60)
    assert told["event"].startswith("DISK_BYTES is more than the disk of DATA_DIR has room for")
    assert (told["log_level"], told["disk_bytes"]) == ("warning", 2**60)


def test_what_lies_in_the_folder_already_counts_as_room(tmp_path):
    with (tmp_path / "records.db").open("wb") as records:
        records.truncate(2**40)  # a sparse file: it has the size, and takes no disk
    assert warnings(tmp_path, free_disk_bytes(tmp_path) + 2**39) == []
    assert warnings(tmp_path, 2**20) == warnings(tmp_path, None) == []
