"""`docs/settings.md` is what the settings say of themselves."""

import re
from pathlib import Path

import pytest
from pydantic import Field, create_model
from pydantic_settings import BaseSettings

from cog_adapt.command.settings import LIMITS, USUAL, model_rows, page, server_rows, shared_rows
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.server.settings import Settings
from cog_adapt.shared_settings import allowed_by

WRITTEN = Path(__file__).parents[3] / "docs" / "settings.md"
MADE = "python -m cog_adapt.command.settings > docs/settings.md"


def row_of(name):
    (row,) = (row for row in every_row() if row.name == name)
    return row


def every_row():
    return [*shared_rows(), *server_rows(), *model_rows()]


def test_the_page_is_up_to_date():
    assert WRITTEN.read_text() == page(), f"run {MADE}"
    assert MADE in page()


def test_every_setting_has_one_row_with_its_default():
    fields = {name: field.default for name, field in Settings.model_fields.items()}
    fields |= {name: field.default for name, field in RunnerSettings.model_fields.items()}
    rows = re.findall(r"^\| `([A-Z_]+)` \| `?([^`|]*?)`? \|", page(), re.MULTILINE)
    found = dict(rows)
    assert len(rows) == len(found)
    assert found.keys() == {name.upper() for name in fields} | {"MODEL", "COG_WEIGHTS"}
    assert found["PORT"] == str(fields["port"])
    assert found["STRICT_COG"] == "0"
    assert found["EGRESS_ALLOW"] == found["DATABASE_URL"] == "–"
    assert found["WEIGHTS_DIR"] == str(fields["weights_dir"])


def test_every_row_says_what_is_allowed_and_meant():
    for row in every_row():
        assert row.allowed, row.name
        assert len(row.meaning) > 10, row.name
        assert "|" not in "".join(row), row.name


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("PORT", "whole number from 0 to 65535"),
        ("RETENTION_DAYS", "number above 0 to 100000"),
        ("LOG_FORMAT", "auto, json or console"),
        ("STRICT_COG", "0 or 1"),
        ("CORS_ORIGINS", "names with commas between"),
        ("DATA_DIR", "path"),
        ("DEVICE", "auto, cpu, cuda or cuda:N"),
        ("BATCH_SIZE", "whole number from 1"),
        ("COMPILE_BLOCKS", "0 or 1"),
        ("SELF_TEST", "quick, full or off"),
        ("ADAPTER_STORE", "URL, such as s3://bucket/folder"),
        ("DISK_BYTES", "whole number from 1048576"),
    ],
)
def test_what_is_allowed_is_what_the_classes_check(name, allowed):
    assert row_of(name).allowed == allowed


def test_the_three_settings_of_bytes_come_first_and_then_the_limits_of_one_request():
    names = re.findall(r"^\| `([A-Z_]+)` \|", page(), re.MULTILINE)
    assert names[:3] == ["MEMORY_SHARE", "DISK_BYTES", "OWNER_SHARE"]
    assert names[3:5] == ["MAX_BODY_BYTES", "MAX_FILE_BYTES"]
    assert {*LIMITS, *USUAL} < {*names}
    first_of_experts = names.index("COG_PREDICT_TYPE_STUB")
    assert all(names.index(name) < first_of_experts for name in (*LIMITS, *USUAL))


def test_a_setting_of_a_new_kind_is_a_fault_of_the_table():
    more = create_model("More", __base__=BaseSettings, odd=(complex, Field(default=0j)))
    with pytest.raises(KeyError):
        allowed_by(more.model_fields["odd"])
