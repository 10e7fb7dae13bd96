"""Each kind of `cog-adapt new`: its project, its tests, and an answer under both servers."""

import ast
import base64
import json
import re
import shlex
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import PurePath

import pytest
import yaml
from packaging.utils import canonicalize_name

from cog_adapt import cog_server, write_schema
from cog_adapt.command import kinds, new
from cog_adapt.command.weights import pins_of
from cog_adapt.server.api.example_requests import FILE, read_example_requests
from cog_adapt.server.schema.validation import InputValidator
from cog_adapt.server.service.service import COMPONENTS
from cog_adapt.server.settings import Settings
from tests.cog_adapt.command.test_new import environment, mirror, run
from tests.cog_adapt.distributions import brought, lines
from tests.cog_adapt.server.command.conftest import ROOT

KINDS = kinds.kinds()
OTHERS = KINDS[1:]
README = (ROOT / "README.md").read_text()
PACKAGES = {"cog_adapt", "gradient_check"}
PREDICTOR = "predict.py:Predictor"
ROWS = "examples_file=@examples/rows.jsonl"
OF_TEXT = {"text": "Where is my parcel?", "examples_file": "@examples/tickets.jsonl", "steps": 2}
SETUP_SECONDS = 300  # a self-test of a large model, on a busy machine
TESTS_SECONDS = 1000  # of a project: a language model takes steps in them
REPLICATES = {"examples_file": "input_images", "weights": "replicate_weights"}
"""What Replicate calls inputs of a model that draws."""
DOOR_NAMES = ("examples", "examples_file", "adapter", "weights", "steps", "seed")


def folder_of(kind):
    return ROOT / "examples" / kind


def missing(kind):
    """The pinned packages of a kind that are not installed here."""
    names = ("requirements.txt", "requirements-weights.txt")
    files = [path for name in names if (path := folder_of(kind) / name).exists()]
    pins = re.findall(r"^([\w.-]+)==(\S+)", "\n".join(f.read_text() for f in files), re.MULTILINE)
    return [name for name, pin in pins if installed(name) != pin]


def installed(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@pytest.fixture(scope="module", params=KINDS)
def project(request, tmp_path_factory):
    """A new project of each kind whose weights are here."""
    if lacking := missing(request.param):
        pytest.skip(f"{', '.join(lacking)}: not installed; `make kinds` installs it and runs this")
    folder = tmp_path_factory.mktemp("kinds") / request.param
    run(["-m", "cog_adapt", "new", str(folder), "--kind", request.param], ROOT)
    return folder


@pytest.fixture
def inputs(project):
    """A request of a project, files as data URIs; in few steps, if no page shows the answer."""
    path = project / "examples" / "request.json"
    asked = json.loads(path.read_text()) if path.exists() else OF_TEXT
    few = {} if project.name in SHOWN else {"steps": 2}
    return {name: sent(value, project) for name, value in (asked | few).items()}


def sent(value, folder):
    if isinstance(value, list):
        return [sent(each, folder) for each in value]
    if not (isinstance(value, str) and value.startswith("@")):
        return value
    content = base64.b64encode((folder / value[1:]).read_bytes()).decode()
    return f"data:application/octet-stream;base64,{content}"


def test_its_tests_pass_its_self_test_among_them(project):
    if project.name == "text":
        pytest.skip("its tests are those of this repository")
    shown = run(["-m", "pytest", "-q", "-p", "no:cacheprovider"], project, TESTS_SECONDS)
    assert re.search(r"^\d+ passed in", shown, re.MULTILINE), shown


def test_it_adapts_and_answers_under_the_mirror(project, inputs):
    with mirror(project, SETUP_SECONDS) as client:
        output = answered(client.post("/predictions", json={"input": inputs}, timeout=300).json())
    if project.name in SHOWN:
        answer = output["predictions"][0] if isinstance(output, dict) else "".join(output)
        assert SHOWN[project.name](answer) in README.replace(r"\|", "|")


def test_it_adapts_and_answers_under_cogs_server(project, inputs):
    if project.name == "text":
        pytest.skip("the tests of this repository ask its predictor under Cog's server")
    write_schema(project, predict=PREDICTOR)
    env = {name: value for name, value in environment().items() if name == "OMP_NUM_THREADS"}
    with cog_server(
        project,
        predict=PREDICTOR,
        env=env | {"DEVICE": "cpu"},
        ready_seconds=SETUP_SECONDS,
    ) as server:
        answered(server.post("/predictions", {"input": inputs}).json())


def labelled(answer):
    """A label as the README shows it."""
    label = answer["label"]
    return f'`{{"label": "{label}", "scores": {{"{label}": {answer["scores"][label]:.2f}, …}}}}`'


SHOWN = {
    "text": labelled,
    "image": labelled,
    "tabular": lambda answer: f"`{answer:.1f}`",
    "lm": lambda answer: f"`{answer}`",
}
"""The answers in the README's table: to the requests of `examples/`, or to OF_TEXT."""


def answered(body):
    assert body.get("status") == "succeeded", body
    output = body["output"]
    if isinstance(output, dict):
        assert output["predictions"]
        assert output["report"]["examples"] >= 3
    return output


@pytest.mark.parametrize("kind", OTHERS)
def test_its_door_has_the_usual_inputs(kind):
    tree = ast.parse((folder_of(kind) / "predict.py").read_text())
    (door,) = (n for n in ast.walk(tree) if isinstance(n, ast.AsyncFunctionDef) and n.name == "run")
    names = [each.arg for each in door.args.args]
    if kind == "diffusion":
        assert set(REPLICATES.values()) <= set(names)
        names += REPLICATES
    assert [name for name in DOOR_NAMES if name not in names] == []


@pytest.mark.parametrize("kind", OTHERS)
def test_it_has_three_example_rows_and_a_request(kind):
    folder = folder_of(kind) / "examples"
    asked = json.loads((folder / "request.json").read_text())
    if kind == "diffusion":
        assert asked["input_images"] == "@examples/letters.zip"
        assert len(rows_of(kind)) == 8
    else:
        assert asked["examples_file"] == "@examples/rows.jsonl"
        assert len(rows_of(kind)) == 3


@pytest.mark.parametrize("kind", OTHERS)
def test_the_page_offers_its_request_with_the_same_rows(kind, tmp_path):
    new.write_project(tmp_path / "project", kind)
    offered = read_example_requests(tmp_path / "project" / FILE)
    document = json.loads(run(["-m", "cog_adapt", "openapi"], tmp_path / "project"))
    for each in offered:
        validator = InputValidator(document, COMPONENTS[each.kind], Settings().max_string_length)
        assert validator.problems(each.input) == [], each.name
    folder, rows = folder_of(kind) / "examples", rows_of(kind)
    asked = json.loads((folder / "request.json").read_text())
    (first,) = asked.keys() & {"images", "prompt", "rows", "sounds"}
    shown = [each.input for each in offered if each.input.get("examples") == rows]
    assert content_of(shown[0][first]) == content_of(sent(asked[first], folder.parent))


def rows_of(kind):
    """The rows of a kind's file of examples, as its page offers them."""
    folder = folder_of(kind) / "examples"
    if (folder / "rows.jsonl").exists():
        return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    with zipfile.ZipFile(folder / "letters.zip") as archive:
        return [
            {
                "caption": PurePath(name).stem[-1],
                "image": f"data:image/png;base64,{base64.b64encode(archive.read(name)).decode()}",
            }
            for name in archive.namelist()
        ]


def content_of(value):
    """A value with each data URI's media type left out."""
    each = value if isinstance(value, list) else [value]
    return [one.rpartition(",")[2] if isinstance(one, str) else one for one in each]


@pytest.mark.parametrize("kind", KINDS)
def test_its_weights_are_described_with_their_license_size_and_replacement(kind, tmp_path):
    new.write_project(tmp_path / "project", kind)
    text = (tmp_path / "project" / "weights" / "README.md").read_text()
    everywhere, _, own = text.partition("## The base model's weights\n")
    assert "adapters/ID.safetensors" in everywhere
    pins = pins_of((tmp_path / "project" / "requirements-weights.txt").read_text())
    named = [pin.partition("==")[0] for pin in pins]
    assert [name for name in named if f"`{name}`" not in own] == []
    assert re.search(r"license (Apache-2\.0|MIT)", own)
    assert re.search(r"\d+ [kM]B", own)
    assert re.search("`MODEL` names|For weights of your own", own)
    assert ("MiniLM" in own) == (kind == "text")


@pytest.mark.parametrize("kind", OTHERS)
def test_nothing_of_its_place_in_the_repository_is_left(kind, tmp_path):
    new.write_project(tmp_path / "project", kind)
    own = {name for _, name in kinds.zone(kind)}
    assert not {"tests/test_predict.py", "examples/tickets.jsonl", "__init__.py"} & own
    for name in own:
        path = tmp_path / "project" / name
        if path.suffix in {".py", ".txt", ".yaml", ".md"}:
            text = path.read_text()
            assert f"examples.{kind}" not in text, name
            assert "TextClassification" not in text, name


@pytest.mark.parametrize("kind", OTHERS)
def test_image_and_cog_file_install_its_weights_and_take_its_modules_along(kind, tmp_path):
    new.write_project(tmp_path / "project", kind)
    folder = tmp_path / "project"
    weights = (folder / "requirements-weights.txt").read_text().splitlines()
    pins = [line for line in weights if not line.startswith("#")]
    build = yaml.safe_load((folder / "cog.yaml").read_text())["build"]
    steps = build.get("run", [])
    assert len(steps) == bool(pins)
    for step in steps:
        words = shlex.split(step)
        assert words[:2] == ["printf", "%s\\n"]
        assert words[2 : words.index(">")] == pins
    (copied,) = re.findall(r"^COPY cog.yaml (.*) \./$", (folder / "Dockerfile").read_text(), re.M)
    kept = {path.name for path in folder_of(kind).iterdir() if path.is_file()}
    kept -= {"__init__.py", *(name for name in kept if name.startswith("requirements"))}
    modules = {path.name for path in folder.glob("*.py")}
    assert "*.py" in copied
    assert kept <= {*copied.split(), *modules, "cog.yaml"}


@pytest.mark.parametrize("kind", KINDS)
def test_its_requirements_bring_what_its_modules_and_tests_import(kind, tmp_path):
    folder = tmp_path / "project"
    new.write_project(folder, kind)
    others = {*PACKAGES, "deploy"}  # deploy/ray/ runs where Ray is
    sources = [path for path in folder.rglob("*.py") if not others & set(path.parts)]
    own = {path.stem for path in sources} | {path.name for path in folder.iterdir()} | PACKAGES
    required = [
        line.partition(" ")[0]
        for each in folder.glob("requirements*.txt")
        for line in lines(each.read_text())
    ]
    installs = {canonicalize_name(each.partition("==")[0]) for each in required}
    installs |= {canonicalize_name(each) for each in brought(required)}
    modules = {name for path in sources for name in imported(path)} - own - sys.stdlib_module_names
    makers = packages_distributions()
    found = {name: map(canonicalize_name, makers.get(name, [name])) for name in modules}
    assert "cog" in modules
    assert [name for name, those in found.items() if not installs & set(those)] == []


def imported(path):
    """The packages that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]


@pytest.mark.parametrize("kind", KINDS)
def test_its_sources_have_the_form_that_its_linter_asks_for(kind, tmp_path):
    new.write_project(tmp_path / "project", kind)
    run(["-m", "ruff", "check", "."], tmp_path / "project")
    run(["-m", "ruff", "format", "--check", "."], tmp_path / "project")


@pytest.mark.parametrize("kind", OTHERS)
def test_make_asks_its_request(kind, tmp_path):
    new.write_project(tmp_path / "project", kind)
    shown = subprocess.run(
        ["make", "--dry-run", "predict", "train", "serve", "ENV="],
        cwd=tmp_path / "project",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"-m server predict {kinds.flags_of(kind)}\n" in shown
    given = "input_images=@examples/letters.zip" if kind == "diffusion" else ROWS
    assert f"-m server train -i {given} " in shown
    assert "examples.few_shot" not in shown
    readme = (tmp_path / "project" / "README.md").read_text()
    assert kinds.flags_of(kind) in readme
    assert "tickets" not in readme


def test_the_root_is_the_default_kind():
    assert KINDS[0] == "text"
    assert {"image", "speech", "tabular"} <= set(OTHERS)


def test_an_unknown_kind_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit):
        new.main([str(tmp_path / "project"), "--kind", "video"])
    assert "image" in capsys.readouterr().err
    assert not (tmp_path / "project").exists()
