"""What happens until a model process is READY, or is not."""

import json
import sys
import textwrap

import pytest

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.protocol import Described, Ready, SetupFailed, SetupLog
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.predictor import Predictor

FINE = "def run(x: int = 1) -> int:\n    return x\n"


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("import sys; sys.exit(4)", "SystemExit: 4"),
        ("x = ", "SyntaxError: invalid syntax (predictor.py, line 3)"),
        ("class Runner:\n def run(self, x) -> str: pass", "ConfigError: input 'x'"),
        (
            "class Runner:\n def setup(self): raise RuntimeError('a\\nb')\n"
            " def run(self) -> str: pass",
            "RuntimeError: a b",
        ),
        (
            "class Runner:\n async def setup(self): raise RuntimeError('boom')\n"
            " def run(self) -> str: pass",
            "RuntimeError: boom",
        ),
    ],
)
def test_a_failure_is_told_in_one_line_after_its_traceback(launch, source, error):
    front = launch(f"print('printed')\nprint('tail', end='')\n{source}", ready=False)
    answer = front.set_up()
    assert isinstance(answer, SetupFailed)
    assert answer.error.startswith(error)
    assert "\n" not in answer.error
    if "SyntaxError" not in error:
        assert front.setup_logs.startswith("printed\n")
        assert front.setup_logs.endswith("tail")
    assert "Traceback (most recent call last)" in front.setup_logs
    assert front.process.is_alive()


def test_the_other_reference_is_described_and_not_set_up(launch):
    other = "class T:\n def setup(self): print('no')\n def train(self, n: int) -> str: return ''\n"
    front = launch(
        FINE,
        ready=False,
        reference="predictor.py:run",
        other="training.py:T",
        files={"training.py": other},
    )
    schema = json.loads(front.hear().schema)
    assert "TrainingInput" in schema["components"]["schemas"]
    assert "Input" in schema["components"]["schemas"]
    assert front.set_up() == Ready()
    assert front.setup_logs == ""


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ("import sys; sys.exit(1)", "SystemExit: 1"),
        ("def train(x): pass", "input 'x' of train"),
    ],
)
def test_an_other_reference_that_fails_is_left_out_and_the_reason_is_logged(launch, other, reason):
    front = launch(
        FINE,
        ready=False,
        reference="predictor.py:run",
        other="training.py:train",
        files={"training.py": other},
    )
    heard = front.hear_until(Ready)
    schema = next(json.loads(each.schema) for each in heard if isinstance(each, Described))
    assert "TrainingInput" not in schema["components"]["schemas"]
    assert reason in "".join(each.data for each in heard if isinstance(each, SetupLog))
    assert front.run(x=2).output == 2


@pytest.fixture
def load(tmp_path, monkeypatch):
    """A predictor in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def make(source, **config):
        (tmp_path / "predicted.py").write_text(textwrap.dedent(source))
        monkeypatch.delitem(sys.modules, "predicted", raising=False)
        return Predictor(WorkerConfig(**{"reference": "predicted.py", **config}))

    return make


def test_a_class_is_instantiated_by_setup_alone(load):
    predictor = load("""
        class Predictor:
            made = 0

            def __init__(self):
                Predictor.made += 1

            def predict(self, x: int) -> int:
                return x + self.made

            def healthcheck(self):
                return "well"
    """)
    assert predictor.instance.made == 0
    predictor.set_up(None)
    assert predictor.instance.made == 1
    assert predictor.function(3) == 4
    assert predictor.healthcheck() == "well"
    assert [each.name for each in predictor.inputs.parameters] == ["x"]


CONCURRENT = "import cog\n@cog.concurrent(max=3)\nasync def run() -> str: ..."


@pytest.mark.parametrize(
    ("source", "given", "concurrency"),
    [
        (CONCURRENT, None, 3),
        (CONCURRENT, 5, 5),
        (CONCURRENT, 1, 1),
        ("async def run() -> str: ...", None, 1),
        ("async def run() -> str: ...", 2, 2),
        ("def run() -> str: ...", 1, 1),
        ("def run() -> str: ...\nrun.__cog_concurrent_max__ = 4", None, 1),
    ],
)
def test_the_concurrency_is_the_settings_or_the_codes(load, source, given, concurrency):
    predictor = load(source, reference="predicted.py:run", concurrency=given)
    assert predictor.concurrency == concurrency
    described = predictor.describe()
    assert (described.concurrency, described.is_async) == (concurrency, predictor.is_async)


def test_the_remedy_is_named_where_it_cannot_be(load):
    with pytest.raises(ConfigError) as caught:
        load(FINE, reference="predicted.py:run", concurrency=2)
    assert str(caught.value) == (
        "concurrency is 2, but run is not async; make it `async def`, or set COG_MAX_CONCURRENCY=1."
    )


@pytest.mark.parametrize("kind", ["predict", "train"])
def test_each_kind_is_described_as_itself(load, kind):
    (own, other) = ("run", "train") if kind == "predict" else ("train", "run")
    source = "def run(a: int) -> str: ...\ndef train(b: int) -> str: ..."
    for named in (None, f"predicted.py:{other}"):
        predictor = load(source, reference=f"predicted.py:{own}", kind=kind, other=named)
        schemas = json.loads(predictor.describe().schema)["components"]["schemas"]
        if named or kind == "predict":
            assert list(schemas["Input"]["properties"]) == ["a"]
        if named or kind == "train":
            assert list(schemas["TrainingInput"]["properties"]) == ["b"]
        assert ("TrainingInput" in schemas) == (named is not None or kind == "train")
