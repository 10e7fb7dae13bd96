"""The commands within the sentences of README and the pages: what runs each, and that it exists."""

import importlib.util
import re
import subprocess
import sys
import tomllib

import pytest

from tests.cog_adapt.sessions import ROOT
from tests.cog_adapt.test_commands import written

COMMAND = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:cog-adapt|cog|make|pip|python3?|docker|npx|openapi-python-client)(?: .*)?"
)
WALK = "bench/first_hour.py"
RUN_BY = {
    "cog-adapt adapters": ("tests/cog_adapt/command/test_adapters.py", '"adapters"'),
    "cog-adapt doctor": (WALK, '"cog-adapt doctor"'),
    "cog-adapt new": ("tests/cog_adapt/test_migrations.py", "made.splitlines()[0]"),
    "cog-adapt new DIR --kind image": (WALK, '"image": Walk'),
    "cog-adapt new DIR --kind lm": (WALK, '"lm": Walk'),
    "cog-adapt new my-style --kind diffusion": (
        "tests/cog_adapt/sessions.py",
        '"docs/diffusion.md": Page',
    ),
    "cog-adapt new my-model --kind image": (WALK, "cog-adapt new my-model --kind {kind}"),
    "cog-adapt predict": ("tests/cog_adapt/sessions.py", "python -m server predict"),
    "cog-adapt replay": ("tests/cog_adapt/command/test_replay.py", '["replay"'),
    "cog-adapt selftest": (WALK, '"cog-adapt selftest"'),
    "cog-adapt selftest FILE:CLASS": (
        "tests/cog_adapt/command/test_selftest.py",
        '"selftest", *arguments',
    ),
    "cog-adapt serve": ("tests/cog_adapt/test_wheel.py", '"serve"'),
    "cog-adapt upgrade": ("tests/cog_adapt/command/test_upgrade.py", '"upgrade"'),
    "cog-adapt weights KIND": ("tests/cog_adapt/command/test_weights.py", '"weights", kind'),
    "docker build -t cog-adapt .": ("tests/cog_adapt/container/test_image.py", "READ_ME"),
    "docker exec": ("tests/cog_adapt/container/containers.py", '"exec"'),
    "docker run --read-only --tmpfs /tmp -p 127.0.0.1:5000:5000 -v cog-adapt:/data cog-adapt": (
        "tests/cog_adapt/container/test_image.py",
        "READ_ME",
    ),
    "docker stop": ("tests/cog_adapt/container/containers.py", '"stop"'),
    "make": ("tests/cog_adapt/test_inline_commands.py", "def test_make_alone"),
    "make predict": ("tests/cog_adapt/test_commands.py", '"predict"]'),
    "make audit": ("tests/cog_adapt/test_releases.py", '"audit"'),
    "make sbom": ("tests/cog_adapt/test_releases.py", '"make", "sbom"'),
    "make serve": (WALK, "_served(kind, steps=steps, command=serve"),
    "make setup": (WALK, 'steps("make setup", setup'),
    "openapi-python-client": ("tests/cog_adapt/server/test_generated_clients.py", "PYTHON_PACKAGE"),
    "pip wheel --no-deps .": ("tests/cog_adapt/test_releases.py", '"gradient_check"'),
    "pip wheel --no-deps ./gradient_check": ("tests/cog_adapt/test_releases.py", '"--no-deps"'),
    "pip install '.[image]'": (WALK, "f'{wheel}[{kind}]'"),
    "python -m cog.server.http": ("tests/cog_adapt/contract/serving.py", '"cog.server.http"'),
    "python -m cog_adapt": ("tests/cog_adapt/command/test_main.py", '"-m", "cog_adapt"'),
    "python -m cog_adapt.command.settings > docs/settings.md": (
        "tests/cog_adapt/command/test_settings.py",
        "settings.md",
    ),
    "python -m server": ("tests/cog_adapt/sessions.py", "python -m server --host"),
    "python -m server key NAME": ("docs/transcript.md", "python -m server key"),
    "python -m tests.cog_adapt.contract.differences": (
        "tests/cog_adapt/contract/test_differences.py",
        "cog-differences.md",
    ),
}
"""A command, the file of a test or walk that runs it, and a text of that file."""
NOT_RUN = {
    "PAGE_IMAGES=1 make page-test": "takes pictures of every kind for an hour",
    "cog build": "Cog's program in Go is not a package; the container suite has a stand-in",
    "make PYTHON=python3.12": "installs another environment; only its steps are compared below",
    "make bench": "measures for hours; `make quick` runs each of its parts",
    "make container": "builds and runs images in a real engine for minutes",
    "make deployments": "starts each deployment for minutes; test_deployments.py tests its parts",
    "make gpu": "needs a CUDA card",
    "make lock": "asks an index for minutes; test_locks.py compares what it has written",
    "make page": "needs node; test_built.py compares what it has written",
    "make page-test": "needs node and runs the browser's tests in their long form",
    "make page-types": "needs node; the page's tests compare what it has written",
    "make proxied": "needs HAProxy and minutes; `make proxied-quick` is its short form",
    "make ray-bench": "installs Ray elsewhere and measures; test_ray_serve.py tests its parts",
    "make ray": "installs Ray elsewhere; test_ray_application.py tests what needs no Ray",
    "make operators": "a load for minutes; test_monitoring.py and test_compose.py do without",
    "make standin": "needs a compiler and takes minutes",
    "make standin-bugs": "the same",
    "make storm": "needs HAProxy, and kills servers for ten minutes",
    "make test-all": "it is what runs the tests",
    "make upgrade": "loads two releases for ten minutes; test_two_releases.py is its short form",
    "pip install boto3": "the program of another project; moto installs it for the tests",
    "pip install 'cog-adapt[remote]'": "requirements-dev.txt installs the same",
    "python -m bench.adapters_in_flight --tree before=DIR --tree after=.": "measures for minutes",
    "python -m bench.capacity --output docs/results/capacity.json": "`make quick` runs it shortly",
    "python -m bench.fleet": "simulates for minutes; test_fleet.py tests its parts",
    "python -m bench.serving --tree": "measures for minutes; test_serving_trees.py tests its parts",
    "python -m bench.house.rooms": "counts for minutes; test_rooms.py tests its parts",
    "python -m bench.scale": "measures for minutes; test_scale.py tests its parts",
    "python -m bench.page": "measures in a browser for minutes",
    "python -m tests.contract_snapshot": "writes; test_contract_snapshot.py compares what it has",
    "python -m tests.version_policy": "writes at a release; test_contract_snapshot.py compares",
}
"""A command that no test runs as it stands, and the reason."""
OF_OTHERS = ("cog build", "docker ", "openapi-python-client")
"""Programs that are not here; the tests above run them."""


def inline():
    """Return the commands, each with white space as one space."""
    found = set()
    for text in written().values():
        sentences = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
        code = (" ".join(each.split()) for each in re.findall(r"`([^`]+)`", sentences))
        found |= {each for each in code if COMMAND.fullmatch(each)} - {"cog", "cog-adapt"}
    return found


def said(*command):
    """Return what a command of the repository writes."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_command_is_run_or_named_with_the_reason():
    assert inline() == RUN_BY.keys() | NOT_RUN.keys()
    for command, (file, text) in RUN_BY.items():
        assert text in (ROOT / file).read_text(), command


def test_make_alone_lists_the_recipes():
    assert {"predict", "test", "serve"} <= {line.split()[0] for line in said("make").splitlines()}


@pytest.mark.parametrize("command", sorted(inline()))
def test_a_command_and_its_flags_exist(command):
    if command.startswith(OF_OTHERS):
        return
    words = command.split(" > ")[0].replace("'", "").split()
    program, *words = [word for word in words if not re.match(r"[A-Z_]+=", word)]
    if program == "make":
        said("make", "--dry-run", *words)
    elif program == "pip":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert {*re.findall(r"\[(\w+)\]", command)} <= project["optional-dependencies"].keys()
    elif program == "cog-adapt" or words[1] == "server":
        flags = [word for word in words if word.startswith("--")]
        name = words[0] if program == "cog-adapt" else (words[2:] or ["serve"])[0]
        told = said(sys.executable, "-m", "cog_adapt", name, "--help")
        assert all(flag in told for flag in flags)
    else:
        assert words[0] == "-m"
        assert importlib.util.find_spec(words[1])
