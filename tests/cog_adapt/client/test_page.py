"""The code of docs/client.md runs as it stands there."""

import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cog_adapt import client
from cog_adapt.client.errors import error_of

PAGE = Path(__file__).parents[3] / "docs" / "client.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_code_runs_against_a_server(server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(BLOCKS).replace("http://127.0.0.1:5000", server.url).replace("…", server.key)
    scope: dict[str, Any] = {}
    exec(code, scope)
    scope["client"].close()
    printed = capsys.readouterr().out
    assert len(re.findall(r"^loss \d", printed, re.MULTILINE)) == 3
    assert "completed {" in printed
    assert printed.endswith("\nsteps 0 422\n")
    assert [each.suffix for each in tmp_path.iterdir()] == [".safetensors"]


def test_the_page_is_short():
    assert len(PAGE.read_text().splitlines()) <= 82


def test_each_status_that_can_go_wrong_has_the_class_of_the_table():
    """The statuses are those of the page about trouble, which a test compares with the source."""
    rows = re.findall(r"^\| ([\d, ]+) \| `(\w+)`", PAGE.read_text(), re.MULTILINE)
    classes = {int(each): name for statuses, name in rows for each in statuses.split(",")}
    trouble = (PAGE.parent / "when-it-goes-wrong.md").read_text()
    assert classes.keys() == {int(each) for each in re.findall(r"^\| (\d{3}) \|", trouble, re.M)}
    request = httpx2.Request("POST", "http://h/predictions")
    for status, name in classes.items():
        error = error_of(httpx2.Response(status, request=request), {})
        assert (type(error).__name__, error.status) == (name, status)


def test_the_table_has_every_class_of_errors():
    table = "".join(line for line in PAGE.read_text().splitlines() if line.startswith("|"))
    errors = {name for name, each in vars(client).items() if isinstance(each, type)}
    errors = {name for name in errors if issubclass(getattr(client, name), client.ClientError)}
    assert errors - {"ClientError"} == {*re.findall(r"`([A-Z]\w+)`", table)} - {"ValueError"}


NAMES = ("step", "early", "log", "chunk", "patience", "max_file_bytes", "upload_above", "deadline")


@pytest.mark.parametrize("name", NAMES)
def test_names_in_the_text_are_the_clients(name):
    sources = (PAGE.parents[1] / "cog_adapt" / "client").glob("*.py")
    assert any(re.search(rf"\b{name}\b", path.read_text()) for path in sources)
