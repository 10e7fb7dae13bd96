"""The commands of README and of the pages: each is run and compared, or named with the reason."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cog_adapt.sessions import PAGES, ROOT, is_alike, shorten

MAKE = "make predict"
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHELLS = {"sh", "bash", "shell", "console"}
OTHERS = {
    "docs/backup.md": "test_backup.py runs its scripts",
    "docs/migrations.md": "test_migrations.py runs every block",
    "docs/own-model.md": "test_own_model.py types every block",
    "docs/client.md": "the tests of the client run it",
    "docs/replicate.md": "needs Replicate's clients; their tests run it",
    "docs/deploy.md": "needs a registry and a cluster; test_manifests.py tests what they are given",
    "docs/generated-clients.md": "needs generators of clients; their tests run it",
}
"""Pages whose commands are run elsewhere."""
APART = {
    "make predict": "below, beside its printed accuracy",
    "make test": "it is what runs the tests",
}
"""Commands of `sh` blocks that no session runs."""


def written():
    """Return README and the pages, by their names."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return {str(path.relative_to(ROOT)): path.read_text() for path in pages}


@pytest.mark.parametrize("name", PAGES)
def test_each_command_of_a_page_answers_as_shown(name, tmp_path):
    page = PAGES[name]
    steps = page.steps()
    assert steps
    said = page.say(tmp_path)
    for (command, shown), answer in zip(steps, said, strict=True):
        log = tmp_path / "server.log"
        told = log.read_text()[-2000:] if log.exists() else ""
        assert is_alike(shown, shorten(answer)), (
            f"{command}\nshown:\n{shown}\nsaid:\n{answer}\nlog:\n{told}"
        )


def test_no_command_is_without_a_test():
    for name, text in written().items():
        for language, block in BLOCK.findall(text):
            if language not in SHELLS or name in OTHERS:
                continue
            if language == "console":
                assert name in PAGES, f"{name} has a session that no test runs"
                continue
            commands = [line.partition("#")[0].strip() for line in block.splitlines()]
            assert {each for each in commands if each} <= set(APART), name


def test_the_main_job_is_as_accurate_as_the_readme_says():
    """`make` without its environment: this one has the packages."""
    (said,) = re.findall(
        rf"^{MAKE} .*: (\d+) % .*, (\d+) % after", PAGES["README.md"].path.read_text(), re.M
    )
    tools = Path(sys.executable).parent
    done = subprocess.run(
        ["make", "ENV=", f"BIN={tools}", "predict"],
        cwd=ROOT,
        env={**os.environ, "DEVICE": "cpu"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (found,) = re.findall(r"accuracy +│ (\d+)% before, (\d+)% after", done.stdout)
    for shown, answered in zip(said, found, strict=True):
        assert abs(int(shown) - int(answered)) <= 5
