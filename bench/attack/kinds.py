"""Attacks the picture and the speech kind over HTTP, beside another owner of each.

Each kind is a project that `cog-adapt new` makes. A kind is skipped if its weights are missing;
`make kinds` installs them, or, into a folder that PYTHONPATH names, the `pip install` of its page.
The other owner's answers are compared with those before the attack. The attacker's bodies are
written to files before a group begins, so that its client takes little of the server's processor.
"""

import contextlib
import json
import mmap
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.attack import hostile_pictures, hostile_sounds
from bench.attack.asking import document_of, row_of
from bench.attack.hostile_pictures import data_uri
from bench.attack.watcher import Question, Sample, said, watched
from bench.attack.work import Caller
from bench.report import console
from cog_adapt.command.new import write_project
from cog_adapt.server.command.local_server import local_server
from cog_adapt.server.middleware.keys import make_key

Inputs = dict[str, Any]
Group = Callable[[], Iterable[Inputs]]

KINDS = ("image", "speech")
_EXAMPLES = Path(__file__).parents[2] / "examples"
_DOOR = {"COG_PREDICT_TYPE_STUB": "predict.py:Predictor"}
_CONNECTIONS = 2  # of the owner that attacks
_QUIET_SECONDS, _CANCEL_AFTER = 2.0, "60s"
_READY_SECONDS = 900.0  # of a self-test of a large model, on a busy machine
_MOST_SHOWN = 200


def missing(kind: str) -> list[str]:
    """Return the pinned packages of a kind's weights that are not installed."""
    text = (_EXAMPLES / kind / "requirements-weights.txt").read_text()
    pins = re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)
    return [name for name, pin in pins if _installed(name) != pin]


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def measure_kinds(
    seconds: float, few: bool = False, only: Sequence[str] = ("",)
) -> list[dict[str, Any]]:
    """Return a row for each group of attacks on each kind; a group lasts at least so many seconds.

    Args:
        seconds: a group begins again after its last file, until they are over.
        few: use a tenth of the pictures in one ZIP.
        only: parts of the names of rows (`speech:`, `bombs`); a kind without such a row is skipped.

    Raises:
        SystemExit: no row has such a name.
    """
    rows = []
    all_groups = groups(few)
    names = [f"{kind}: {name}" for kind in KINDS for name in all_groups[kind]]
    for part in only:
        if not any(part in name for name in names):
            raise SystemExit(f"--only {part!r} is in no row's name; rows: {'; '.join(names)}.")
    for kind in KINDS:
        chosen = {
            name: group
            for name, group in all_groups[kind].items()
            if any(part in f"{kind}: {name}" for part in only)
        }
        if not chosen:
            continue
        if lacking := missing(kind):
            console.print(
                f"The kind {kind} is not attacked: {', '.join(lacking)} is not installed. "
                f"`make kinds` installs it."
            )
            continue
        rows += list(_attacked(kind, chosen, seconds))
    return rows


def _inputs(field: str, files: Iterable[bytes]) -> Iterator[Inputs]:
    """Yield each file as an input, and as an example."""
    target = "label" if field == "images" else "target"
    right = data_uri_of_row(field)
    for content in files:
        uri, other = data_uri(content), {"input": right, target: "b"}
        yield {field: [uri], "examples": [{"input": right, target: "a"}, other], "steps": 2}
        yield {field: [right], "examples": [{"input": uri, target: "a"}, other], "steps": 2}


def data_uri_of_row(field: str) -> str:
    """Return a small valid file."""
    pictures = field == "images"
    return data_uri(hostile_pictures.saved("PNG") if pictures else hostile_sounds.wav())


def _many(field: str, content: bytes, count: int) -> Inputs:
    return {field: [data_uri(content)] * count, "examples": list(_rows(field))}


def _rows(field: str) -> Iterator[Inputs]:
    path = _EXAMPLES / ("image" if field == "images" else "speech") / "examples" / "rows.jsonl"
    yield from (json.loads(line) for line in path.read_text().splitlines())


def groups(few: bool) -> Mapping[str, Mapping[str, Group]]:
    """Return the attacks on each kind."""
    pictures, sounds = hostile_pictures, hostile_sounds
    zipped = 300 if few else 3_000
    small, large = pictures.saved("PNG"), pictures.saved("PNG", 6_300, "L")
    return {
        "image": {
            "headers of 10 gigapixels": lambda: _inputs("images", pictures.headers()),
            "cut files": lambda: _inputs("images", pictures.cut()),
            "palettes, frames, interlaced": lambda: _inputs("images", pictures.unusual()),
            "bombs": lambda: _inputs("images", pictures.bombs()),
            "EXIF of 1 MB": lambda: _inputs("images", pictures.large_exif()),
            "as many blocks as fit": lambda: _inputs("images", pictures.many_blocks()),
            "2,000 scans": lambda: _inputs("images", [pictures.many_scans()]),
            "one long row": lambda: _inputs("images", [pictures.one_row()]),
            f"a ZIP of {zipped:,}": lambda: [_zipped(zipped)],
            "many pictures": lambda: [_many("images", small, 300), _many("images", large, 6)],
        },
        "speech": {
            "headers that lie": lambda: _inputs("sounds", sounds.headers()),
            "cut files": lambda: _inputs("sounds", sounds.cut()),
            "as many chunks as fit": lambda: _inputs("sounds", sounds.many_chunks()),
            "longest and shortest": lambda: _inputs("sounds", sounds.long_sounds()),
            "many sounds": lambda: [_many("sounds", sounds.wav(), 20)],
        },
    }


def _zipped(count: int) -> Inputs:
    return {
        "images": [data_uri_of_row("images")],
        "examples_file": data_uri(hostile_pictures.folders(count)),
        "steps": 2,
    }


def _attacked(kind: str, attacks: Mapping[str, Group], seconds: float) -> Iterator[dict[str, Any]]:
    """Serve a new project of a kind, and yield a row for each group."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name) / "project"
        write_project(folder, kind)
        os.chdir(folder)
        keys = {owner: make_key(owner, ("predict",)) for owner in ("ann", "bob")}
        (folder / "keys").write_text("".join(f"{line}\n" for _, line in keys.values()))
        settings = _DOOR | {"API_KEYS_FILE": str(folder / "keys"), "COG_MAX_CONCURRENCY": "8"}
        ann, bob = (key for key, _ in keys.values())
        with local_server("predict", settings) as server:
            address = server.url.removeprefix("http://")
            document_of(address, bob, _READY_SECONDS)
            question = _question(kind, Caller(address, bob))
            row = partial(_row, address=address, keys=(ann, bob), question=question)
            yield row(f"{kind}: nothing", make=lambda: (), seconds=seconds / 4)
            yield from (
                row(f"{kind}: {name}", make=a, seconds=seconds) for name, a in attacks.items()
            )


def _question(kind: str, caller: Caller) -> Question:
    """Let the other owner adapt; return a request of that owner, and its answer."""
    field, name = ("images", "boot.png") if kind == "image" else ("sounds", "adapter.wav")
    sent = data_uri((_EXAMPLES / kind / "examples" / name).read_bytes())
    inputs = {field: [sent], "examples": list(_rows(field)), "steps": 2}
    status, content = caller.ask("POST", "/predictions", json.dumps({"input": inputs}).encode())
    made = json.loads(content).get("output")
    if not made:
        raise RuntimeError(f"{status}: {content[:_MOST_SHOWN]!r}; see the server's log")
    inputs = {field: [sent], "adapter": made["adapter"]}
    _, content = caller.ask("POST", "/predictions", json.dumps({"input": inputs}).encode())
    return Question(inputs, said(content))


def _row(  # noqa: PLR0913 - one group's own
    name: str,
    address: str,
    keys: tuple[str, str],
    question: Question,
    make: Group,
    seconds: float,
) -> dict[str, Any]:
    """Attack with a group again and again while the other owner sends requests."""
    answers: Counter[str] = Counter()
    with _bodies(make()) as bodies, watched(address, keys[1], question) as samples:
        time.sleep(_QUIET_SECONDS)
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            answers += _sent(address, keys[0], bodies)
            time.sleep(0.2)
        ended = time.monotonic()
    return row_of(name, began, ended, answers, samples) | _others(samples, began, ended)


@contextlib.contextmanager
def _bodies(group: Iterable[Inputs]) -> Iterator[list[memoryview]]:
    """Write the bodies of a group to a file; up to 600 MB would not be kept in memory."""
    with contextlib.ExitStack() as opened:
        bodies = []
        for inputs in group:
            file = opened.enter_context(tempfile.TemporaryFile(dir="."))
            file.write(json.dumps({"input": inputs}).encode())
            file.flush()
            bodies.append(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
        yield bodies


def _sent(address: str, key: str, bodies: Iterable[memoryview]) -> Counter[str]:
    with ThreadPoolExecutor(_CONNECTIONS) as threads:
        return Counter(threads.map(lambda body: _said_to(address, key, body), bodies))


def _said_to(address: str, key: str, body: memoryview) -> str:
    """Return the class of an answer: answered, refused with a reason, or a fault."""
    caller = Caller(address, key)
    status, content = caller.ask("POST", "/predictions", body, Cancel_After=_CANCEL_AFTER)
    caller.close()
    if not 200 <= status < 300:
        return f"{status // 100}xx" if status else "connection ended"
    found = json.loads(content)
    return str(found["status"])


def _others(samples: list[Sample], began: float, ended: float) -> dict[str, Any]:
    """Count the other owner's answers."""
    asked = [s for s in samples if s.name == "no-op" and began <= s.began <= ended]
    return {
        "others answered": sum(s.status == 200 for s in asked),
        "others wrong": sum(s.wrong for s in asked),
        "load, 1 min": os.getloadavg()[0],
    }


def wrong_kinds(rows: list[dict[str, Any]]) -> list[str]:
    """Say which attacks changed or lost another owner's answer, or caused a fault of the server."""
    return [
        f"{row['attack']}: of {row['others answered']} answers to another owner "
        f"{row['others wrong']} were wrong, {row['others refused']} questions were refused; the "
        f"attacker got {row['answers']}"
        for row in rows
        if row["others wrong"] or row["others refused"] or "5xx" in row["answers"]
    ]
