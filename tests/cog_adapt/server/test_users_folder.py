"""The user's modules may have the names of ours, and of what ours import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FILES = {
    "predict.py": "import rich, runner\ndef run() -> str: return runner.VALUE + rich.VALUE",
    "rich.py": "VALUE = 'b'",
}


@pytest.mark.parametrize("file", ["runner.py", "runner/__init__.py"])
@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (["cog_adapt.server.command.openapi"], '"openapi": "3.0.2"'),
        (["cog_adapt.command.openapi"], '"openapi": "3.0.2"'),  # as older projects' Makefiles say
        (["server", "predict"], "ab"),
    ],
)
def test_ours_are_not_hidden_and_do_not_hide_the_users(tmp_path, file, command, printed):
    for name, text in {**FILES, file: "VALUE = 'a'"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    ours = {"PYTHONPATH": str(ROOT), "COG_PREDICT_TYPE_STUB": "predict.py:run"}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=tmp_path,
        env={**os.environ, **ours},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
