"""Walks a stranger's first hour with each kind of model, from nothing, and times every step.

    python -m bench.first_hour --kind image text --output docs/results/first-hour.json

Each kind has a new folder, an empty home and new environments. The commands are those that README
names and `cog-adapt new` prints; the answers are asked by curl and on the page, and compared.
`--quick` lends the packages of this environment to the new ones, and walks with the table alone
unless a kind is named.
"""

import argparse
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.first_hour_page import answered_on_page
from bench.first_hour_table import write_table
from bench.process_group import end_on_signals, process_group

ROOT = Path(__file__).parents[1]
GOAL_SECONDS = 600  # from nothing to a personalised answer, with the downloads
TO_THE_ANSWER = ("environment", "pip install", "new", "make setup", "make serve", "curl")
_KEPT = ("PIP_", "SSL_", "REQUESTS_", "CURL_", "LANG", "LC_", "TMPDIR", "http", "HTTP", "no_proxy")
_MOST_SECONDS = 1800  # of a step


class Walk(NamedTuple):
    """What is asked of a kind: an example request of its project, and the right answer."""

    request: str
    answer: Callable[[Any], str]
    expected: str


def _label(output: dict[str, Any], row: int = 0) -> str:
    return str(output["predictions"][row]["label"])


def _form(output: list[str]) -> str:
    """Return the media type of the picture."""
    return output[-1].removeprefix("data:").partition(";")[0]


WALKS = {
    "text": Walk("Adapt to 48 tickets", lambda output: _label(output, 1), "delivery"),
    "image": Walk("Label a boot from three pictures", _label, "boot"),
    "tabular": Walk("Adapt to three patients", lambda o: f"{o['predictions'][0]:.1f}", "140.2"),
    "lm": Walk("Answer as three pairs do", "".join, "dinner | Sunday"),
    "speech": Walk(
        "Adapt to three sentences", lambda o: o["predictions"][0], "Sort the LoRA adapter."
    ),
    "diffusion": Walk("Take over a style from eight letters", _form, "image/png"),
}


class Steps:
    """Runs commands in an environment of their own, and keeps the seconds of each step."""

    def __init__(self, folder: Path, lends: bool) -> None:
        self.lends = lends
        self.seconds: dict[str, float] = {}
        home = folder / "home"
        home.mkdir()
        kept = {name: value for name, value in os.environ.items() if name.startswith(_KEPT)}
        path = f"{folder}/env/bin:/usr/local/bin:/usr/bin:/bin"
        self.variables = {**kept, "HOME": str(home), "PATH": path, "NO_COLOR": "1"}

    def __call__(self, name: str, command: str | Sequence[str | Path], place: Path) -> str:
        """Run one step; return what it wrote, or end the walk with it."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with (
            self.timed(name),
            process_group(command, cwd=place, env=self.variables, **pipes) as process,
        ):
            said, errors = process.communicate(timeout=_MOST_SECONDS)
        if process.returncode:
            raise SystemExit(f"{name}: exit code {process.returncode}\n{said}{errors}")
        return str(said)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Keep the seconds of a step, and print them."""
        began = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - began, 1)
        print(f"  {name:<12} {self.seconds[name]:>7.1f} s", flush=True)

    def make_environment(self, place: Path) -> None:
        """Make a new environment; it may borrow this one's packages."""
        subprocess.run([_python(), "-m", "venv", place], check=True, env=self.variables)
        if self.lends:
            (site,) = place.glob("lib/python*/site-packages")
            lent = [sysconfig.get_path("purelib"), *_linked(Path(sysconfig.get_path("purelib")))]
            (site / "lent.pth").write_text("".join(f"{each}\n" for each in dict.fromkeys(lent)))


def _linked(site: Path) -> list[str]:
    """Return the folders that the .pth files of an environment add."""
    lines = [line for file in site.glob("*.pth") for line in file.read_text().splitlines()]
    return [line for line in lines if line.startswith("/")]


def _python() -> str:
    """Return the Python that this environment was made with."""
    return os.path.realpath(sys.executable)


def main() -> None:
    """Walk with each kind that is asked for, and write the seconds."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--kind", nargs="+", choices=[*WALKS], help="default: all, or tabular")
    parser.add_argument("--quick", action="store_true", help="lend this environment's packages")
    parser.add_argument("--output", type=Path, help="JSON; the table is written beside it")
    chosen = parser.parse_args()
    end_on_signals()
    kinds = chosen.kind or (["tabular"] if chosen.quick else [*WALKS])
    if chosen.quick:
        print("the packages of this environment are lent: the seconds are not a user's")
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix="first-hour-") as folder:
            found = walk(kind, Path(folder), lends=chosen.quick)
        if chosen.output:
            _keep(chosen.output, kind, found)


def _keep(file: Path, kind: str, found: dict[str, Any]) -> None:
    kept = json.loads(file.read_text()) if file.exists() else {}
    kept[kind] = found
    file.write_text(
        json.dumps({name: kept[name] for name in WALKS if name in kept}, indent=1) + "\n"
    )
    write_table(file.with_suffix(".md"), kept, TO_THE_ANSWER, GOAL_SECONDS)


def walk(kind: str, folder: Path, lends: bool) -> dict[str, Any]:
    """Walk the first hour with one kind; return its answers and seconds."""
    print(f"{kind}:", flush=True)
    steps = Steps(folder, lends)
    wheels = [ROOT, ROOT / "gradient_check"]
    build = [_python(), "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder / "wheels", *wheels]
    steps("build", [str(part) for part in build], folder)
    with steps.timed("environment"):
        steps.make_environment(folder / "env")
    (wheel,) = (folder / "wheels").glob("cog_adapt-*.whl")
    steps("pip install", f"pip install -q {shlex.quote(f'{wheel}[{kind}]')}", folder)
    printed = steps("new", f"cog-adapt new my-model --kind {kind}", folder).splitlines()
    change, setup, serve = printed
    project = folder / shlex.split(change)[1]
    if lends:
        steps.make_environment(project / ".venv")
    steps("make setup", setup, project)
    answers = _served(kind, steps=steps, command=serve, project=project)
    steps("make test", "make test", project)
    steps("doctor", "cog-adapt doctor", project)
    steps("selftest", "cog-adapt selftest", project)
    total = round(sum(steps.seconds[name] for name in TO_THE_ANSWER), 1)
    print(f"  {total:.0f} s to a personalised answer; the goal is {GOAL_SECONDS}", flush=True)
    machine = {"python": sys.version.split()[0], "cores": os.cpu_count()}
    return {"seconds": steps.seconds, "to_the_answer": total, "answers": answers, **machine}


def _served(kind: str, steps: Steps, command: str, project: Path) -> dict[str, str]:
    """Serve the project, and ask by curl and on the page; return the answers."""
    asked = WALKS[kind]
    requests = json.loads((project / "examples" / "requests.json").read_text())
    (values,) = (each["input"] for each in requests if each["name"] == asked.request)
    (project / "asked.json").write_text(json.dumps({"input": values}))
    with _serving(command, steps, project) as address:
        curl = f"curl -s {address}/predictions -H 'Content-Type: application/json' -d @asked.json"
        body = json.loads(steps("curl", curl, project))
        if body["status"] != "succeeded":
            raise SystemExit(f"curl: {body}")
        answers = {"curl": asked.answer(body["output"])}
        with steps.timed("page"):
            answers["page"] = answered_on_page(address, asked.request, asked.expected)
    (project / "asked.json").unlink()
    print(f"  answers: {answers}", flush=True)
    if answers["curl"] != asked.expected:
        raise SystemExit(f"{kind} answered {answers['curl']!r}; expected was {asked.expected!r}.")
    return answers


@contextmanager
def _serving(command: str, steps: Steps, project: Path) -> Iterator[str]:
    """Start the server by the printed command, and wait until it is ready; yield its address."""
    port = _free_port()
    address = f"http://localhost:{port}"
    log = project / "server.log"
    output, variables = log.open("wb"), {**steps.variables, "PORT": str(port)}
    with (
        output,
        process_group(
            command, cwd=project, env=variables, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        with steps.timed("make serve"):
            _wait_until_ready(process, address, log)
        yield address
    log.unlink()
    shutil.rmtree(project / ".data", ignore_errors=True)


def _wait_until_ready(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    ready = ["curl", "-sf", "-o", "/dev/null", f"{address}/readyz"]
    while subprocess.run(ready, check=False).returncode:
        if process.poll() is not None:
            raise SystemExit(f"make serve: {log.read_text()[-3000:]}")
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
