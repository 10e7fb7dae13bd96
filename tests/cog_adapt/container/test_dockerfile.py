"""What of the Dockerfile can be checked without an engine."""

import ast
import json
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from cog_adapt.server.cogfile import read_cogfile
from gradient_check.tests.present import present
from tests.cog_adapt.container.base_image import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()
IMPORTED_BY_NAME = ("predict.py", "train.py")  # COG_PREDICT_TYPE_STUB, COG_TRAIN_TYPE_STUB
REQUIREMENTS = (".txt", ".lock", "-weights.txt")
LEFT_OUT = {ROOT / "gradient_check" / each for each in ("exam", "tests")}  # by .dockerignore
JOINED = DOCKERFILE.replace("\\\n", " ")


def instructions(name):
    return re.findall(rf"^{name}\s+(.*)$", JOINED, re.MULTILINE)


def variables():
    pairs = " ".join(instructions("ENV")).split()
    return dict(pair.split("=", 1) for pair in pairs)


def copied():
    """What the COPY instructions take out of the repository."""
    named = [source for line in instructions("COPY") for source in line.split()[:-1]]
    modules = [path.name for path in ROOT.glob("*.py")] if "*.py" in named else []
    return [*named, *modules]


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def needed():
    """The files and packages of the repository that `python -m server` imports, by its sources."""
    found, waiting = set(), ["server", *IMPORTED_BY_NAME]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        found_here = (
            path for path in (ROOT / name).rglob("*.py") if not LEFT_OUT & {*path.parents}
        )
        sources = sorted(found_here) or [ROOT / name]
        for module in {module for source in sources for module in imported_modules(source)}:
            waiting += [n for n in (module, f"{module}.py") if is_source(ROOT / n)]
    return found


def is_source(path: Path) -> bool:
    return path.suffix == ".py" and path.is_file() or (path / "__init__.py").is_file()


@pytest.mark.parametrize("name", ["Dockerfile", "deploy/ray/Dockerfile"])
def test_hadolint_finds_nothing(name):
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run(
        [hadolint, "--no-color", ROOT / name], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_all_that_the_server_imports_is_copied():
    assert needed() <= set(copied())
    assert {"cog_adapt", "server", *IMPORTED_BY_NAME} <= needed()  # the search itself finds them


def test_nothing_else_is_copied():
    files = {"cog.yaml", "pyproject.toml", *(f"requirements{each}" for each in REQUIREMENTS)}
    shown = {"examples/requests.json"}  # by the playground
    modules = {path.name for path in ROOT.glob("*.py")}
    assert set(copied()) - needed() - modules == files | shown | {"*.py"}


def test_the_build_context_has_what_is_copied():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    ignored = [(s, p) for s in copied() for p in patterns if fnmatch(s, p.removeprefix("**/"))]
    assert ignored == []


def test_cog_finds_its_own_files_in_the_build_context():
    assert ".cog" not in (ROOT / ".dockerignore").read_text().split()  # `cog build` copies from it


@pytest.mark.parametrize("secret", [".env", "config/.env.local", "tls.key", "certs/tls.pem"])
def test_secrets_stay_outside_the_build_context(secret):
    lines = (ROOT / ".dockerignore").read_text().split()
    assert any(fnmatch(secret, line) or fnmatch(f"x/{secret}", line) for line in lines)


def test_the_environment_says_what_cog_build_would_write():
    cogfile = read_cogfile(ROOT / "cog.yaml")
    assert variables()["COG_PREDICT_TYPE_STUB"] == cogfile.predict_reference
    assert variables()["COG_TRAIN_TYPE_STUB"] == cogfile.train
    concurrency = re.search(r"@concurrent\(max=(\d+)\)", (ROOT / "predict.py").read_text())
    assert variables()["COG_MAX_CONCURRENCY"] == present(concurrency)[1]


def test_the_base_has_the_python_of_cog_yaml():
    found = re.search(r'python_version: "([\d.]+)"', (ROOT / "cog.yaml").read_text())
    base = f"python:{present(found)[1]}-slim"
    assert (instructions("ARG")[0], instructions("FROM")) == (f"BASE={base}", ["${BASE}"])
    assert f"--build-arg BASE={base}@sha256:" in (ROOT / "docs/deploy.md").read_text()


def test_all_that_is_kept_lies_in_the_volume():
    assert instructions("VOLUME") == ["/data"]
    for name in ("DATA_DIR", "WEIGHTS_DIR", "HF_HOME"):
        assert variables()[name].startswith("/data/")


def test_the_user_is_a_number():
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", instructions("USER")[-1])  # else runAsNonRoot fails


def test_signals_reach_the_server():
    for name in ("ENTRYPOINT", "CMD"):
        assert isinstance(json.loads(instructions(name)[-1]), list)  # no shell in between


def test_no_frontend_is_pulled():
    assert not DOCKERFILE.startswith("# syntax")
