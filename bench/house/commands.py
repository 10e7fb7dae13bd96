"""Records the output and the exit codes of the command line."""

import tempfile
from pathlib import Path

from bench.house.normal import normal
from bench.house.selftests import run_selftest
from bench.house.tree import Ended, Tree, fill

_STUBS = {
    "COG_PREDICT_TYPE_STUB": "work.py:Predictor",
    "COG_TRAIN_TYPE_STUB": "work_train.py:train",
}
_NOWHERE = ("--url", "http://127.0.0.1:9")
_WITH_CODE: tuple[tuple[str, ...], ...] = (
    ("--help",),
    ("--version",),
    ("--no-such-flag",),
    ("no-such-command",),
    ("--x-mode", "dream"),
    ("--host", "999.1.1.1"),
    *((name, "--help") for name in ("predict", "train", "openapi", "key")),
    ("predict",),
    ("predict", "-i", "action=tell"),
    ("predict", "-i", "action=tell", "--json"),
    ("predict", "-i", "action=fail"),
    ("predict", "-i", "action=sing"),
    ("predict", "-i", "nothing=1"),
    ("predict", "-i", "text"),
    ("predict", "-i", "text=@no-such-file"),
    ("predict", "-o", "no-such-folder/x"),
    ("predict", "-o", "answer.txt"),
    ("predict", "--no-such-flag"),
    ("predict", "--setup-timeout", "-1"),
    ("predict", "--env", "x", "-i", "text=a"),
    ("predict", "--env", "MAX_QUEUE=-1"),
    ("predict", *_NOWHERE),
    ("predict", *_NOWHERE, "--env", "A=b"),
    ("train",),
    ("train", "-i", "name=n", "-o", "made.bin"),
    ("train", "-i", "name=n", "-i", "steps=0"),
    ("openapi", "-o", "document.json"),
    ("openapi", "-o", "no-such-folder/document.json"),
    ("key",),
    ("key", "ci"),
    ("key", "ci", "--scope", "predict", "--scope", "train"),
    ("key", "ci", "--scope", "everything"),
    ("key", "a b"),
)
_WITHOUT_CODE: tuple[tuple[str, ...], ...] = ((), ("predict",), ("train",), ("openapi",))
_SELFTEST: tuple[tuple[str, ...], ...] = (
    ("--help",),
    ("--no-such-flag",),
    ("nothing.py:Task",),
    ("work.py:Predictor",),
)


def commands(tree: Tree) -> dict[str, str]:
    """Make `command.txt`: each command, its exit code and its output."""
    parts: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = fill(Path(name) / "with code", "work.py", "work_train.py")
        parts += [_part(tree, folder, each, _STUBS) for each in _WITH_CODE]
        parts.append("files: " + " ".join(sorted(each.name for each in folder.glob("*.*"))) + "\n")
        empty = fill(Path(name) / "empty")
        parts += [_part(tree, empty, each, {}, " in an empty folder") for each in _WITHOUT_CODE]
        broken = fill(Path(name) / "broken", "broken.py")
        stub = {"COG_PREDICT_TYPE_STUB": "broken.py:Predictor"}
        parts.append(_part(tree, broken, ("predict",), stub, " whose setup fails"))
        parts += [_selftest(tree, folder, each) for each in _SELFTEST]
    return {"command.txt": "\n".join(parts)}


def _part(
    tree: Tree, folder: Path, arguments: tuple[str, ...], more: dict[str, str], where: str = ""
) -> str:
    ended = tree.run(["-m", "server", *arguments], folder, {"PORT": "0", **more})
    return _described(" ".join(("server", *arguments)) + where, ended, folder)


def _selftest(tree: Tree, folder: Path, arguments: tuple[str, ...]) -> str:
    return _described(
        " ".join(("selftest", *arguments)), run_selftest(tree, folder, arguments), folder
    )


def _described(title: str, ended: Ended, folder: Path) -> str:
    known = {str(folder): "<folder>"}
    lines = [f"=== {title}: exit code {ended.code}"]
    for name, text in (("stdout", ended.out), ("stderr", ended.err)):
        lines += [f"{name}| {line}".rstrip() for line in _settled(normal(text, known))]
    return "\n".join(lines) + "\n"


def _settled(text: str) -> list[str]:
    # Log lines in JSON have their own part of the snapshot.
    return [line for line in text.split("\n") if line and not line.startswith('{"')]
