"""What happens until a model process is READY, or is not."""

import json

import pytest

from cog_adapt.server.protocol import Described, Ready, SetupFailed, SetupLog

FINE = "def run(x: int = 1) -> int:\n    return x\n"


def test_all_that_setup_prints_is_told_before_ready(launch):
    front = launch("""
        import sys
        print("importing")

        class Runner:
            def setup(self):
                for number in range(500):
                    print(number)
                print("error", file=sys.stderr)
                sys.stdout.write("tail")

            def run(self) -> str:
                return ""
    """, ready=False)  # fmt: skip
    assert isinstance(front.set_up(), Ready)
    numbers = "".join(f"{number}\n" for number in range(500))
    assert front.setup_logs == f"importing\n{numbers}error\ntail"


def test_the_description_comes_before_setup(launch):
    front = launch("""
        import cog

        class Runner:
            def setup(self):
                print("setting up")

            @cog.concurrent(max=3)
            async def run(self, text: str) -> str:
                return text
    """, ready=False)  # fmt: skip
    first = front.hear()
    assert isinstance(first, Described)
    assert (first.concurrency, first.is_async) == (3, True)
    schema = json.loads(first.schema)
    assert schema["components"]["schemas"]["Input"]["required"] == ["text"]
    assert isinstance(front.hear(), SetupLog)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("import nothing_like_it", "ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("import sys; sys.exit(4)", "SystemExit: 4"),
        ("x = ", "SyntaxError: invalid syntax (predictor.py, line 2)"),
        ("class Other: pass", "ConfigError: predictor.py has no Runner or Predictor"),
        ("class Runner:\n def run(self): pass\n def predict(self): pass", "ConfigError: Runner"),
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
    front = launch(f"print('printed')\n{source}", ready=False)
    answer = front.set_up()
    assert isinstance(answer, SetupFailed)
    assert answer.error.startswith(error)
    assert "\n" not in answer.error
    if "SyntaxError" not in error:
        assert front.setup_logs.startswith("printed\n")
    assert "Traceback (most recent call last)" in front.setup_logs
    assert front.process.is_alive()


def test_concurrency_needs_an_async_run(launch):
    front = launch(f"class Runner:\n  @staticmethod\n  {FINE.strip()}", ready=False, concurrency=2)
    assert "ConfigError: concurrency is 2, but Runner.run is not async" in front.set_up().error


@pytest.mark.parametrize(("weights", "seen"), [("http://x/w", "http://x/w"), ("", None)])
def test_setup_gets_cog_weights_as_they_are(launch, monkeypatch, weights, seen):
    monkeypatch.setenv("COG_WEIGHTS", weights)
    front = launch("""
        import cog

        class Runner:
            def setup(self, weights: cog.Path | None):
                self.weights = weights

            def run(self) -> str:
                return repr(self.weights)
    """)
    assert front.run().output == repr(seen)


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
        ("import nothing_like_it", "No module named 'nothing_like_it'"),
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
