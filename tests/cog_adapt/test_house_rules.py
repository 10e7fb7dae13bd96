"""The rules of the house that no linter holds: targets of size, words, what tests wait for."""

import ast
import functools
import re
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest

from bench.house.packing import Packing, packed_below
from bench.house.trees import Module

ROOT = Path(__file__).parents[2]
SOURCES = [
    *(
        path
        for name in ("gradient_check", "cog_adapt", "server", "deploy", "bench", "examples")
        for path in sorted((ROOT / name).rglob("*.py"))
        if ROOT / "gradient_check" / "tests" not in path.parents
    ),
    *(
        path
        for name in ("predict.py", "train.py", "task.py", "encoder.py")
        if (path := ROOT / name).exists()
    ),
]
BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.AsyncFor, ast.AsyncWith, ast.Match)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
PRIVATE_WORDS = {
    *("desk", "desks", "lane", "lanes", "clinic", "shelf", "journal", "told", "wish", "bury"),
    *("debt", "manner", "intake", "aside", "asides", "outlives", "leftovers", "surroundings"),
    *("victim", "ledger"),
}
FRAGMENTS = {
    *("what", "whether", "how", "who", "where", "why", "when", "which", "those", "one", "it"),
    *("its", "as", "of", "in", "by", "that", "there", "nothing", "nobody"),
}
# Lines of code, blank and comment lines included, docstrings not.
TARGETS = {"file": 250, "class": 150, "function": 40}
# Sources that miss a target, each with the reason in a sentence; ten at most.
EXCEPTIONS: dict[str, str] = {
    "gradient_check/phases/gradient_step.py": "a step is forward, backward, clip and update",
    "cog_adapt/runner/adaptation/run.py": "the state of one run, between ticks, has one owner",
    "gradient_check/check.py": "the call has a keyword for each thing that is declared",
    "predict.py": "each of Cog's inputs, and what it becomes, is given by its name",
    "examples/lm/predict.py": "the same",
    "examples/diffusion/predict.py": "the same",
    "examples/diffusion/train.py": "the same",
    "cog_adapt/server/service/worker.py": "the states of one worker, start to end, have one owner",
    "cog_adapt/runner/storage/known.py": "what is known of adapters changes under one lock",
}
# Packages whose values go by name, and how many may not yet; the number only shrinks.
PACKED = {
    "cog_adapt/runner": 0,
    "cog_adapt/lm": 0,
    "cog_adapt/command": 0,
    "cog_adapt/client": 0,
}
# Where time has to pass in a test, and why no event could be waited for instead.
SLEEPS = {
    "container/engine.py": "asks dockerd until it answers, and says what it wrote if it does not",
    "contract/predictors/actions.py": "a model whose work takes its time",
    "contract/predictors/streaming.py": "a model whose work takes its time",
    "contract/predictors/train.py": "a model whose work takes its time",
    "contract/servers.py": "coglet frees a slot after its answer and loses cancels: asks it again",
    "contract/serving.py": "asks a server until it is up, and says what it wrote if it is not",
    "deploy/ray/calling.py": "asks until a run has ended, whatever dies meanwhile",
    "faults/recording_predictor.py": "a model whose work takes its time",
    "faults/test_server_killed.py": "a deadline passes; a write ends that nothing outside shows",
    "gradient_check/tests/test_examination.py": "the time of a check is measured",
    "runner/test_base_is_immutable.py": "an exception is put into this loop between two bytecodes",
    "runner/test_cancel_at_every_bytecode.py": "work that makes its caller poll in vain",
    "server/api/test_large_bodies.py": "the pauses of an event loop are measured",
    "server/egress/test_transfer.py": "a server drips; the time of a transfer passes",
    "server/middleware/test_body_limit.py": "the application takes longer than the client may",
    "server/middleware/test_connection_limits.py": "clients and applications are slow on purpose",
    "server/service/test_deadline.py": "a deadline passes",
    "server/service/test_heartbeat.py": "an event loop stands still on purpose",
    "server/worker/test_active.py": "the time of a run is measured",
    "server/worker/test_downloads.py": "a server drips",
    "server/worker/test_output_files.py": "a file is older than the run by the clock of the disk",
    "waiting.py": "the helpers that wait for something, or see to it that nothing happens",
}
# Calls that start a process, and the fixtures that do it for one test alone, with the reason.
STARTERS = {"Popen", "Command", "serving", "local_server", "cog_server"}
STARTED_FOR_ONE_TEST = {
    "command/test_selftest.py": {"on_terminal": "the command is what is tested"},
    "server/command/conftest.py": {"start": "the command is what is tested"},
    "contract/conftest.py": {"launch": "the test ends its server, or needs flags of its own"},
    "runner/devices/test_threads.py": {"start": "the processes are what is counted"},
    "server/worker/test_guard.py": {"start": "the processes are what is ended"},
    "server/worker/test_processes.py": {"start": "the processes are what is ended"},
    "server/test_start_screen.py": {"show": "the start is what is shown"},
}

# Private names of other libraries that happen to be the product's too.
OTHERS_PRIVATE = {
    "gradient_check/tests/test_lightning.py": {"_results"},
    "tests/cog_adapt/replicate/test_clients.py": {"_client", "_request"},
    "tests/cog_adapt/replicate/test_trainings.py": {"_client"},
    "tests/cog_adapt/replicate/test_traps.py": {"_client"},
    "tests/cog_adapt/replicate/test_without_keys.py": {"_client"},
    "tests/cog_adapt/server/telemetry/test_exporting.py": {"_root"},
    "tests/cog_adapt/server/webhooks/test_sender.py": {"_replace"},
}
SETTERS = {"setattr", "delattr", "getattr", "hasattr", "patch", "object"}

OURS = ROOT / "tests" / "cog_adapt"
TESTS = {
    **{str(path.relative_to(OURS)): path for path in OURS.rglob("*.py")},
    **{str(path.relative_to(ROOT)): path for path in (ROOT / "gradient_check/tests").rglob("*.py")},
}
RUNNER = [path for path in SOURCES if "runner" in path.parts or "gradient_check" in path.parts]
DOORS = ("predict.py", "train.py")
TRANSPORTS = {"cog", "coglet", "fastapi", "starlette", "uvicorn", "server"}


def name_of(path):
    return str(path.relative_to(ROOT))


def functions_in(tree):
    return [each for each in ast.walk(tree) if isinstance(each, FUNCTIONS)]


def is_property(node):
    return any("property" in ast.unparse(each) for each in node.decorator_list)


def docstring_lines(node):
    """Count the lines of a module's, class's or function's own docstring."""
    documented = ast.get_docstring(node) is not None
    return node.body[0].end_lineno - node.body[0].lineno + 1 if documented else 0


def lines_of(node):
    """Count lines from `def` or `class` to the last, docstrings inside left out."""
    documented = (*FUNCTIONS, ast.ClassDef)
    inside = sum(docstring_lines(each) for each in ast.walk(node) if isinstance(each, documented))
    return node.end_lineno - node.lineno + 1 - inside


def missed_targets(path, tree=None):
    """Name the file, classes and functions of a source that are longer than their targets."""
    text = path.read_text()
    tree = ast.parse(text) if tree is None else tree
    documented = (*FUNCTIONS, ast.ClassDef, ast.Module)
    inside = sum(docstring_lines(each) for each in ast.walk(tree) if isinstance(each, documented))
    missed = [path.name] if len(text.splitlines()) - inside > TARGETS["file"] else []
    for node in ast.walk(tree):
        kind = "class" if isinstance(node, ast.ClassDef) else "function"
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and lines_of(node) > TARGETS[kind]:
            missed.append(node.name)
    return missed


def nesting_of(node, depth=0):
    """How deep blocks stand in a function; `elif` is no deeper than its `if`."""
    deepest = depth
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            continue
        is_elif = isinstance(node, ast.If) and [child] == node.orelse and isinstance(child, ast.If)
        deeper = isinstance(child, BLOCKS) and not is_elif
        deepest = max(deepest, nesting_of(child, depth + deeper))
    return deepest


def names_in(tree):
    """Every name that a source gives or uses."""
    names = set()
    for node in ast.walk(tree):
        found = (getattr(node, field, None) for field in ("id", "attr", "name", "arg", "asname"))
        names |= {name for name in found if isinstance(name, str)}
    return names


def words_of(name):
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def fragments_in(tree):
    """The functions whose docstring begins in the middle of a sentence."""
    first = {
        each.name: (ast.get_docstring(each) or "").partition(" ")[0].lower()
        for each in functions_in(tree)
        if not is_property(each)
    }
    return [name for name, word in first.items() if word in FRAGMENTS]


@functools.cache
def facts_of(path):
    """What the rules ask of a source, which is parsed once."""
    tree = ast.parse(path.read_text())
    return SimpleNamespace(
        missed=missed_targets(path, tree),
        deep=[each.name for each in functions_in(tree) if nesting_of(each) > 2],
        worded=[name for name in (path.stem, *names_in(tree)) if words_of(name) & PRIVATE_WORDS],
        fragments=fragments_in(tree),
        private={*defined_in(tree)},
    )


def sources_with(fact):
    """The sources of which a fact has something to say, with it."""
    found = {name_of(path): getattr(facts_of(path), fact) for path in SOURCES}
    return {name: said for name, said in found.items() if said}


def test_a_source_is_within_its_targets_or_says_why_and_few_do():
    assert sources_with("missed").keys() == EXCEPTIONS.keys(), "say why, or cut what is too long"
    assert all(EXCEPTIONS.values())
    assert len(EXCEPTIONS) <= 10


def test_what_is_longer_than_its_target_is_found(tmp_path):
    source = tmp_path / "long.py"
    body = "\n".join(["        x = 1"] * 40)
    source.write_text(f'class A:\n    def f(self):\n        """Do."""\n{body}\n')
    assert missed_targets(source) == ["f"]


def test_functions_are_flat():
    assert sources_with("deep") == {}


def test_no_private_word_is_among_their_names():
    assert sources_with("worded") == {}


def test_a_functions_docstring_begins_with_what_it_does():
    assert sources_with("fragments") == {}


@pytest.mark.parametrize(
    ("source", "depth"),
    [
        ("def f():\n if a:\n  for b in c:\n   d()", 2),
        ("def f():\n if a:\n  b()\n elif c:\n  d()", 1),
        ("def f():\n try:\n  a()\n except B:\n  with c:\n   if d:\n    e()", 3),
        ("def f():\n match a:\n  case 1:\n   while b:\n    c()", 2),
        ("def f():\n if a:\n  def g():\n   if b:\n    c()", 1),
    ],
)
def test_nesting_is_counted(source, depth):
    assert nesting_of(ast.parse(source).body[0]) == depth


def test_the_words_of_a_name():
    assert words_of("_FrontDesk_told2") == {"front", "desk", "told"}


def sleeps_in(path):
    """The calls that wait for a constant time; `sleep(0)` waits for none."""
    text = path.read_text()
    nodes = ast.walk(ast.parse(text)) if "sleep(" in text else ()
    calls = [each for each in nodes if isinstance(each, ast.Call)]
    return [
        call
        for call in calls
        if ast.unparse(call.func).rpartition(".")[2] == "sleep"
        and call.args
        and is_constant(call.args[0])
    ]


def is_constant(node):
    is_named = isinstance(node, ast.Name) and node.id.isupper()
    return is_named or (isinstance(node, ast.Constant) and bool(node.value))


def test_only_what_is_named_waits_for_time():
    waiting = {name for name, path in TESTS.items() if sleeps_in(path)}
    assert waiting == set(SLEEPS), "wait for an event: see waiting.py"


def called_in(node):
    calls = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
    return {ast.unparse(function).rpartition(".")[2] for function in calls}


def starts_for_one_test(function):
    """Whether a function is a fixture of one test's life that starts a process."""
    marks = [ast.unparse(each) for each in function.decorator_list]
    is_short = any("pytest.fixture" in mark and "scope=" not in mark for mark in marks)
    return is_short and bool(called_in(function) & STARTERS)


def fixtures_in(path):
    text = path.read_text()
    return functions_in(ast.parse(text)) if "pytest.fixture" in text else []


def test_fixtures_start_processes_once_a_module():
    found = {
        test: names
        for test, path in TESTS.items()
        if (names := {each.name for each in fixtures_in(path) if starts_for_one_test(each)})
    }
    assert found == {path: set(named) for path, named in STARTED_FOR_ONE_TEST.items()}


@pytest.mark.parametrize(
    ("decorator", "expected"),
    [("pytest.fixture", True), ('pytest.fixture(scope="module")', False), ("once", False)],
)
def test_a_fixture_that_starts_a_process_is_found(decorator, expected):
    source = f"@{decorator}\ndef server():\n with serving('mirror') as it:\n  yield it"
    assert starts_for_one_test(ast.parse(source).body[0]) == expected


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("time.sleep(0.1)", 1),
        ("await asyncio.sleep(PAUSE)", 1),
        ("sleep(_PAUSE)", 1),
        ("await asyncio.sleep(0)", 0),
        ("time.sleep(seconds)", 0),
    ],
)
def test_sleeps_are_found(tmp_path, source, count):
    (tmp_path / "test_x.py").write_text(source)
    assert len(sleeps_in(tmp_path / "test_x.py")) == count


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_the_runner_knows_no_transport():
    assert [name_of(path) for path in RUNNER if TRANSPORTS & {*imported(path)}] == []


@pytest.mark.parametrize("door", DOORS)
def test_a_door_has_at_most_a_hundred_lines(door):
    assert len((ROOT / door).read_text().splitlines()) <= 100


@pytest.mark.parametrize("name", ["utils", "helpers", "common", "base", "core", "manager"])
def test_no_module_is_named_after_nothing(name):
    assert not [path for path in SOURCES if path.stem == name or path.parent.name == name]


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def defined_in(tree):
    """The private names that a source gives to functions, classes, attributes and values."""
    for node in ast.walk(tree):
        is_stored = isinstance(getattr(node, "ctx", None), ast.Store)
        if is_stored or isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            names = (getattr(node, field, None) for field in ("attr", "id", "name"))
            yield from (name for name in names if name and is_private(name))


@pytest.fixture(scope="module")
def private_names():
    """What the product keeps to itself."""
    return {name for path in SOURCES for name in facts_of(path).private}


def names_touched(node):
    """The names that a node reaches for in something else: an attribute, an import, a setter."""
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
        yield node.attr
    elif isinstance(node, ast.ImportFrom):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in SETTERS:
        texts = (each.value for each in node.args if isinstance(each, ast.Constant))
        yield from (str(text).rpartition(".")[2] for text in texts)


def touches_in(tree, private_names):
    """The private names of the product that a test touches; those of its own are not."""
    strangers = private_names - {*defined_in(tree)}
    return [name for node in ast.walk(tree) for name in names_touched(node) if name in strangers]


def test_no_test_touches_a_private_name_of_the_product(private_names):
    found = {}
    for path in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "gradient_check/tests").rglob("*.py")]:
        touched = touches_in(ast.parse(path.read_text()), private_names)
        if ours := {*touched} - OTHERS_PRIVATE.get(name_of(path), set()):
            found[name_of(path)] = ours
    assert found == {}, "go through the public call, or move the test to where the promise is"


@pytest.mark.parametrize(
    "source",
    [
        "runner._model",
        "a.b._model.c",
        "from product import _model",
        'monkeypatch.setattr(module, "_model", None)',
        'monkeypatch.setattr("product.module._model", None)',
    ],
)
def test_a_private_name_that_is_touched_is_found(source):
    assert touches_in(ast.parse(source), {"_model"}) == ["_model"]
    assert touches_in(ast.parse(source), {"_other"}) == []
    assert touches_in(ast.parse(f"self._model = 1\n{source}"), {"_model"}) == []
    assert touches_in(ast.parse("self._model, os._exit"), {"_model"}) == []


@pytest.fixture(scope="module")
def packed():
    return packed_below([*PACKED])


@pytest.mark.parametrize("place", PACKED)
def test_more_than_three_values_go_by_name(packed, place):
    assert len(packed[place]) <= PACKED[place], packed[place]


PACKING_KNOWN = """
def far(a, b, c, d): ...
def alone(f, /, *rest): ...
class Point:
    def near(self, a, b, c, d): ...
"""


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("far(1, 2, 3, 4)", ["far: 4 by place"]),
        ("far(1, 2, 3, d=4)", []),
        ("far(*given)", ["far: *"]),
        ("Point(1, 2, 3, 4)", ["Point: 4 by place"]),
        ("point.near(1, 2, 3, 4)", ["point.near: 4 by place"]),
        ("task.near(1, 2, 3, 4)", []),
        ("given(1, 2, 3, 4)", []),
        ("print(1, 2, 3, 4, *given)", []),
        ("alone(far, 1, 2, 3)", []),
        ("alone(far, 1, 2, 3, 4)", ["alone: 4 by place"]),
        ("from functools import partial\npartial(far, 1, 2, 3, 4)", ["partial: 4 by place"]),
        ("from torch import far\nfar(1, 2, 3, 4)", []),
        ("self.a, self.b = 1, 2", ["(self.a, self.b)"]),
        ("self.a, b = 1, 2", []),
    ],
)
def test_packed_values_are_found(source, found):
    known = Module(PurePosixPath("cog_adapt/known.py"), "package", PACKING_KNOWN)
    imports = "from cog_adapt.known import Point, alone, far\n" if "torch" not in source else ""
    module = Module(PurePosixPath("cog_adapt/new.py"), "package", imports + source)
    places = Packing([known, module]).of(module)
    assert [place.partition(" ")[2] for place in places] == found
