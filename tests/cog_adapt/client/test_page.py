"""The code of docs/client.md runs as it stands there."""

import re
from pathlib import Path
from typing import Any

import pytest

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
    assert len(PAGE.read_text().splitlines()) <= 60


@pytest.mark.parametrize("name", ["step", "early", "log", "chunk", "patience", "max_file_bytes"])
def test_names_in_the_text_are_the_clients(name):
    sources = (PAGE.parents[1] / "cog_adapt" / "client").glob("*.py")
    assert any(re.search(rf"\b{name}\b", path.read_text()) for path in sources)
