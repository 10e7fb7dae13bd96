"""Runs the commands of the documents' `console` blocks in a shell, and compares what they say.

`python -m tests.cog_adapt.sessions PAGE` writes the answers of now into a page, such as README.md.
"""

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.cog_adapt.contract.serving import free_port

ROOT = Path(__file__).parents[2]
SECONDS = 400  # of a page, on a busy machine
_SESSION = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
_COMMAND = re.compile(r"^\$ .*\n(?:> .*\n)*", re.MULTILINE)
_VARIES = re.compile(
    r"…|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)?|pred_[0-9a-f]+|ca_[\w-]+"
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b(?:[0-9a-f]{16}|[0-9a-f]{64})\b"
    r"|-?\d+(?:\.\d+)+(?:e-?\d+)?"
)
_LONG = (
    (re.compile(r'"receipt":\{.*?\},"step":'), '"receipt":{…},"step":'),
    (re.compile(r"(?<=\[)-?[\d.]+(?:,-?[\d.]+)+(?=\])"), "…"),
    (re.compile(r'(?<=,")best_step".*?(?="method")'), "…"),
    (re.compile(r'(?<="level":")(?:quick|full)(?=")'), "…"),  # of the self-test: by earlier passes
    (re.compile(r'(?<="logs":")[^"]{60,}(?=")'), "…"),
    (re.compile(r"\n?Loading weights:.*\n?"), ""),
)


START = (
    "$ python -m server --host 127.0.0.1 > server.log 2>&1 &\n",
    "$ until curl -sf localhost:5000/readyz > ready; do sleep 0.5; done\n",
)
STOP = ("$ curl -s -X POST localhost:5000/shutdown; wait\n",)
TAUGHT = """\
$ cat > rows.csv <<'END'
> text,label
> The box never came,delivery
> It was left at the wrong door,delivery
> I want my money back,refund
> Please undo the payment,refund
> END
$ python -m server predict --url http://localhost:5000 -i text="Where is my parcel?" \\
>   -i method=lora -i steps=3 -i examples_file=@rows.csv > answer.json
$ ID=$(grep -o '"adapter": *"[0-9a-f]*"' answer.json | cut -d '"' -f 4)
"""


@dataclass(frozen=True)
class Page:
    """A document, and what its reader has typed before and types after its blocks."""

    path: Path
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def steps(self) -> list[tuple[str, str]]:
        """Return each command as it stands there, and the answer below it."""
        return read_steps(self.path.read_text())

    def say(self, folder: Path) -> list[str]:
        """Run all commands in a folder, and return what those of the page write."""
        commands = [command for command, _ in self.steps()]
        said = run([*self.before, *commands, *self.after], folder)
        return said[len(self.before) :][: len(commands)]


PAGES = {
    "README.md": Page(ROOT / "README.md", START, STOP),
    "docs/transcript.md": Page(ROOT / "docs" / "transcript.md"),
    "docs/adapters.md": Page(ROOT / "docs" / "adapters.md", (*START, TAUGHT)),
    "docs/diffusion.md": Page(ROOT / "docs" / "diffusion.md"),
    "docs/recipes.md": Page(ROOT / "docs" / "recipes.md"),
    "docs/operations.md": Page(ROOT / "docs" / "operations.md"),
}


def read_steps(document: str) -> list[tuple[str, str]]:
    """Return each command of a text, and the answer below it."""
    steps = []
    for session in _SESSION.findall(document):
        commands = _COMMAND.findall(session)
        answers = _COMMAND.split(session)[1:]
        steps += list(zip(commands, answers, strict=True))
    return steps


def write_command(folder: Path) -> Path:
    """Write a folder for PATH that has `cog-adapt`, and return it."""
    tools = folder / "bin"
    tools.mkdir()
    command = f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m cog_adapt "$@"\n'
    (tools / "cog-adapt").write_text(command)
    (tools / "cog-adapt").chmod(0o755)
    return tools


def run(commands: list[str], folder: Path) -> list[str]:
    """Return what each command writes to standard output, all in one shell; ports are free ones.

    A pass of the template's self-test is kept for the next page, as for a second start.
    """
    passes = Path(os.environ.get("WEIGHTS_DIR", ROOT / "weights")) / "selftest"
    passes.mkdir(parents=True, exist_ok=True)
    (folder / "weights").mkdir()
    (folder / "weights" / "selftest").symlink_to(passes)
    for name in ("predict.py", "train.py", "task.py", "encoder.py", "cog.yaml"):
        (folder / name).symlink_to(ROOT / name)
    outputs = [folder / f"output-{number}" for number in range(len(commands))]
    script = "\n".join(
        f"{{\n{re.sub(r'^[$>] ', '', command, flags=re.MULTILINE)}}} > {output} 2>&1"
        for command, output in zip(commands, outputs, strict=True)
    )
    for port in ("5000", "5001"):
        script = script.replace(f"localhost:{port}", f"localhost:{free_port()}")
    return _execute(script, folder, outputs)


def _execute(script: str, folder: Path, outputs: list[Path]) -> list[str]:
    ports = [*dict.fromkeys(re.findall(r"localhost:(\d+)", script))]
    first, second = ports[0] if ports else "5000", ports[-1] if ports else "5001"
    environment = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ} | {
        "PATH": f"{write_command(folder)}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "DEVICE": "cpu",
        "PORT": first,
        "no_proxy": "*",
    }
    shell = subprocess.Popen(
        ["bash", "-c", script.replace("PORT=5001", f"PORT={second}")],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        shell.wait(SECONDS)
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, 9)
            shell.wait()
    return [output.read_text() if output.exists() else "" for output in outputs]


def is_alike(shown: str, said: str) -> bool:
    """Return whether an answer is the shown one, but for times, ids and decimal fractions."""
    pattern, start = "", 0
    for match in _VARIES.finditer(shown):
        varying = ".*" if match[0] == "…" else f"(?:{_VARIES.pattern[2:]})"
        pattern += re.escape(shown[start : match.start()]) + varying
        start = match.end()
    pattern += re.escape(shown[start:].rstrip("\n"))
    return re.fullmatch(pattern, said.rstrip("\n"), re.DOTALL) is not None


def shorten(said: str) -> str:
    """Return an answer without its longest parts, in whole lines."""
    said = said if not said or said.endswith("\n") else f"{said}\n"
    for pattern, replacement in _LONG:
        said = pattern.sub(replacement, said)
    return said


def main() -> None:
    """Write a document anew."""
    page = PAGES[sys.argv[1]]
    with tempfile.TemporaryDirectory() as folder:
        answers = iter(page.say(Path(folder)))

    def fill(session: re.Match[str]) -> str:
        written = (command + shorten(next(answers)) for command in _COMMAND.findall(session[0]))
        return "".join(written)

    page.path.write_text(_SESSION.sub(fill, page.path.read_text()))


if __name__ == "__main__":
    main()
