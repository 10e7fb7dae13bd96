"""The page `docs/own-model.md`: each of its blocks is run, in order, in an empty folder."""

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.cog_adapt.command.test_new import environment
from tests.cog_adapt.contract.serving import free_port
from tests.cog_adapt.sessions import write_command
from tests.cog_adapt.waiting import wait_until

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "own-model.md").read_text()
BLOCKS = re.findall(r"^```(\S+) ?(.*)\n((?:.*\n)*?)```$", PAGE, re.MULTILINE)
SECONDS = 300  # of a command or a setup, on a busy machine


class Reader:
    """Follows the page: writes its files, types its commands, leaves its server running."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.servers: list[subprocess.Popen[bytes]] = []
        self.answers: dict[str, str] = {}
        self.said: dict[str, str] = {}
        self.typed: list[str] = []
        tools = [str(write_command(folder)), str(Path(sys.executable).parent)]
        self.env = environment(PATH=os.pathsep.join([*tools, os.environ["PATH"]]))

    def follow(self, language: str, note: str, text: str) -> None:
        name, _, value = note.partition("=")
        if language == "python":
            (self.folder / value).write_text(text)
        elif name == "server":
            self.serve(text)
        else:
            said = self.type(text)
            if name == "answer":
                self.answers[value] = said
            elif name == "says":
                self.said[value] = said
        self.typed.append(text)

    def type(self, text: str) -> str:
        script = f"set -e\n{text}\npwd > {self.folder.anchor}dev/fd/3"
        reading, writing = os.pipe()
        done = subprocess.run(
            ["bash", "-c", script.replace("/dev/fd/3", f"/dev/fd/{writing}")],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            pass_fds=[writing],
        )
        os.close(writing)
        with os.fdopen(reading) as ended_in:
            where = ended_in.read().strip()
        assert done.returncode == 0, text + done.stdout[-2000:] + done.stderr[-2000:]
        self.folder = Path(where)
        return done.stdout

    def serve(self, text: str) -> None:
        """Start a server in place of the one before it, at a port that is free now."""
        self.leave()
        self.port = free_port()
        self.env["PORT"] = str(self.port)
        log = self.folder / "server.log"
        with log.open("wb") as output:
            command = ["bash", "-c", f"exec {text}"]
            process = subprocess.Popen(
                command, cwd=self.folder, env=self.env, stdout=output, stderr=subprocess.STDOUT
            )
        self.servers.append(process)
        with httpx2.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60) as client:
            wait_until(lambda: is_ready(client), SECONDS, log.read_text)

    def leave(self) -> None:
        for process in self.servers:
            process.terminate()
            process.wait(30)
        self.servers.clear()


def is_ready(client: httpx2.Client) -> bool:
    with contextlib.suppress(httpx2.TransportError):
        return bool(client.get("/readyz").status_code == 200)
    return False


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """Somebody who has done all that the page says."""
    reader = Reader(tmp_path_factory.mktemp("page"))
    try:
        for block in BLOCKS:
            reader.follow(*block)
        yield reader
    finally:
        reader.leave()


def test_every_block_is_run(reader):
    assert len(reader.typed) == PAGE.count("\n```") // 2 == len(BLOCKS)


def test_the_answer_is_the_one_that_the_page_names(reader):
    for label, said in reader.answers.items():
        body = json.loads(said)
        assert body.get("status") == "succeeded", body
        assert body["output"]["predictions"] == [label]
        assert body["output"]["adapter"]
        assert f'`["{label}"]`' in PAGE
    assert reader.answers


def test_what_a_command_says_is_what_the_page_shows(reader):
    (said,) = reader.said.values()
    assert f"`{said.strip()}`" in PAGE


def test_the_way_to_the_first_answer_is_short():
    first, _, _ = PAGE.partition("## 6. ")
    assert len(first.splitlines()) <= 120


def test_the_messages_that_lead_to_a_hook_are_those_of_the_source():
    named = re.findall(r"^\|.*\| `([^`]+)` \|$", PAGE, re.MULTILINE)
    assert len(named) >= 8
    folders = (ROOT / "cog_adapt" / "runner", ROOT / "gradient_check")
    sources = [path.read_text() for folder in folders for path in folder.rglob("*.py")]
    assert [each for each in named if not any(each in text for text in sources)] == []
