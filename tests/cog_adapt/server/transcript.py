"""Runs the commands of `docs/transcript.md` in a shell, and compares what they say.

`python -m tests.cog_adapt.server.transcript` writes the answers of now into the document.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cog_adapt.contract.serving import free_port

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "transcript.md"
SECONDS = 180
_SESSION = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
_COMMAND = re.compile(r"^\$ .*\n(?:> .*\n)*", re.MULTILINE)
_VARIES = re.compile(
    r"…|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)|pred_[0-9a-f]+|ca_[\w-]+"
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{16}\b|-?\d+(?:\.\d+)+(?:e-?\d+)?"
)
_LONG = (
    (re.compile(r'"receipt":\{.*?\},"step":'), '"receipt":{…},"step":'),
    (re.compile(r"(?<=\[)-?[\d.]+(?:,-?[\d.]+)+(?=\])"), "…"),
    (re.compile(r'(?<=,")best_step".*?(?="method")'), "…"),
    (re.compile(r'(?<="level":")(?:quick|full)(?=")'), "…"),  # of the self-test: by earlier passes
    (re.compile(r'(?<="logs":")[^"]{60,}(?=")'), "…"),
)


def read_steps(document: str) -> list[tuple[str, str]]:
    """Each command as it stands there, and the answer below it."""
    steps = []
    for session in _SESSION.findall(document):
        commands = _COMMAND.findall(session)
        answers = _COMMAND.split(session)[1:]
        steps += list(zip(commands, answers, strict=True))
    return steps


def run(commands: list[str], folder: Path) -> list[str]:
    """What each command writes to standard output, all in one shell; ports are free ones."""
    for name in ("predict.py", "train.py", "cog.yaml"):
        (folder / name).symlink_to(ROOT / name)
    outputs = [folder / f"output-{number}" for number in range(len(commands))]
    script = "\n".join(
        f"{{\n{re.sub(r'^[$>] ', '', command, flags=re.MULTILINE)}}} > {output}"
        for command, output in zip(commands, outputs, strict=True)
    )
    for port in ("5000", "5001"):
        script = script.replace(f"localhost:{port}", f"localhost:{free_port()}")
    return _execute(script, folder, outputs)


def _execute(script: str, folder: Path, outputs: list[Path]) -> list[str]:
    first, second = dict.fromkeys(re.findall(r"localhost:(\d+)", script))
    environment = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ} | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
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
    """Whether an answer is the shown one, but for times, ids and decimal fractions."""
    pattern, start = "", 0
    for match in _VARIES.finditer(shown):
        varying = ".*" if match[0] == "…" else f"(?:{_VARIES.pattern[2:]})"
        pattern += re.escape(shown[start : match.start()]) + varying
        start = match.end()
    pattern += re.escape(shown[start:].rstrip("\n"))
    return re.fullmatch(pattern, said.rstrip("\n"), re.DOTALL) is not None


def shorten(said: str) -> str:
    """An answer without its longest parts, in whole lines."""
    said = said if not said or said.endswith("\n") else f"{said}\n"
    for pattern, replacement in _LONG:
        said = pattern.sub(replacement, said)
    return said


def main() -> None:
    """Write the document anew."""
    document = DOCUMENT.read_text()
    commands = [command for command, _ in read_steps(document)]
    with tempfile.TemporaryDirectory() as folder:
        answers = iter(run(commands, Path(folder)))

    def fill(session: re.Match[str]) -> str:
        written = (command + shorten(next(answers)) for command in _COMMAND.findall(session[0]))
        return "".join(written)

    DOCUMENT.write_text(_SESSION.sub(fill, document))


if __name__ == "__main__":
    main()
