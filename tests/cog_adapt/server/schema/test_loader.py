import contextlib
import functools
import os
import sys
from pathlib import Path
from typing import Any

import cog
import pytest
from cog import Input, streaming
from cog import streaming as alias

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.schema.loader import (
    Handler,
    find_handler,
    is_streaming,
    load_reference,
    names_default,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def write(folder: Path, text: str, name: str = "predict.py") -> None:
    (folder / name).write_text(text)


def test_loads_the_class_that_is_named(folder):
    write(folder, "class Runner: ...\nclass Mine: ...\n")
    assert load_reference("predict.py:Mine").__name__ == "Mine"


def test_loads_runner_before_predictor_where_none_is_named(folder):
    write(folder, "class Predictor: ...\nclass Runner: ...\n")
    assert load_reference("predict.py").__name__ == "Runner"
    write(folder, "class Predictor: ...\n", "older.py")
    assert load_reference("older.py").__name__ == "Predictor"


def test_loads_a_function_from_a_folder_below(folder):
    (folder / "models").mkdir()
    write(folder, "def train() -> str: ...\n", "models/train.py")
    assert load_reference("models/train.py:train").__name__ == "train"


def test_the_module_is_found_by_its_name_while_it_loads(folder):
    write(
        folder,
        "from __future__ import annotations\n"
        "import sys\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Runner:\n    x: int\n"
        "assert sys.modules[__name__].Runner is Runner\n",
    )
    assert load_reference("predict.py").__module__ == "predict"


@pytest.mark.parametrize("reference", ["missing.py:Runner", "predict:Runner", "predict.txt:Runner"])
def test_a_reference_to_no_python_file_is_refused_by_name(folder, reference):
    write(folder, "", "predict.txt")
    with pytest.raises(ConfigError, match=reference):
        load_reference(reference)


def test_a_missing_name_is_refused_by_name(folder):
    write(folder, "")
    with pytest.raises(ConfigError, match=r"predict\.py has no Mine"):
        load_reference("predict.py:Mine")
    with pytest.raises(ConfigError, match="no Runner or Predictor"):
        load_reference("predict.py")


def test_an_error_in_the_file_passes_through(folder):
    write(folder, "raise RuntimeError('from the file')\n")
    with pytest.raises(RuntimeError, match="from the file"):
        load_reference("predict.py:Predictor")


class ByRun(cog.BaseRunner):
    def run(self, x: int) -> str: ...


class Inherits(ByRun): ...


class ByPredict(cog.BasePredictor):
    def predict(self, x: int) -> str: ...


class Both:
    def run(self) -> str: ...

    def predict(self) -> str: ...


class Neither(cog.BaseRunner): ...


class Trains:
    def run(self) -> str: ...

    def train(self, steps: int) -> str: ...


def function(x: int) -> str: ...


@pytest.mark.parametrize(
    ("target", "mode", "name", "parameters"),
    [
        (ByRun, "predict", "ByRun.run", ["x"]),
        (Inherits, "predict", "Inherits.run", ["x"]),
        (ByPredict, "predict", "ByPredict.predict", ["x"]),
        (Trains, "predict", "Trains.run", []),
        (Trains, "train", "Trains.train", ["steps"]),
        (function, "predict", "function", ["x"]),
        (function, "train", "function", ["x"]),
    ],
)
def test_finds_the_function_of_a_mode(target, mode, name, parameters):
    handler = find_handler(target, mode)
    assert (handler.name, [p.name for p in handler.parameters]) == (name, parameters)


@pytest.mark.parametrize(
    ("target", "mode", "message"),
    [
        (Both, "predict", "run and predict"),
        (Neither, "predict", "no predict method"),
        (ByRun, "train", "no train method"),
        (functools.partial(function, 1), "predict", "no function"),
    ],
)
def test_a_target_without_one_function_is_refused(target, mode, message):
    with pytest.raises(ConfigError, match=message):
        find_handler(target, mode)


def stars(*values: int) -> str: ...
def more(**values: int) -> str: ...
def keyword_only(*, x: int) -> str: ...
def positional_only(x: int, /) -> str: ...


@pytest.mark.parametrize("target", [stars, more, keyword_only, positional_only])
def test_parameters_that_cannot_be_inputs_are_refused(target):
    with pytest.raises(ConfigError, match=f"of {target.__name__} is"):
        find_handler(target, "predict")


def wrapping(inner):
    @functools.wraps(inner)
    def outer(*args: object) -> object:
        return inner(*args)

    return outer


@streaming
def by_name() -> str: ...
@streaming()
def called() -> str: ...
@cog.streaming
def by_module() -> str: ...
@cog.streaming()
def by_module_called() -> str: ...
@alias
def by_alias() -> str: ...
@wrapping
@cog.streaming
def below_another() -> str: ...


class Timer(contextlib.ContextDecorator):
    """Decorates with a wrapper of another module, where the names here mean nothing."""

    def __enter__(self): ...

    def __exit__(self, *_): ...


@Timer()
@streaming
def below_a_foreign_one() -> str: ...


class Method:
    text = """
not indented
"""

    @cog.streaming
    def run(self) -> str:
        return """
not indented either
"""


@pytest.mark.parametrize(
    "target",
    [
        by_name,
        called,
        by_module,
        by_module_called,
        by_alias,
        below_another,
        below_a_foreign_one,
        Method,
    ],
)
def test_the_streaming_decorator_is_seen(target):
    assert is_streaming(find_handler(target, "predict"))


@wrapping
def other_decorator() -> str: ...
@cog.concurrent(max=1)
def concurrent() -> str: ...


class Unrelated:
    @staticmethod
    def streaming(inner):
        return inner


@Unrelated.streaming
def a_namesake() -> str: ...


@pytest.mark.parametrize("target", [function, other_decorator, concurrent, a_namesake, ByRun])
def test_other_decorators_do_not_stream(target):
    assert not is_streaming(find_handler(target, "predict"))


def helper(text: str) -> cog.FieldInfo:
    return Input(description=text)


SHARED = Input()


def defaults(
    a: str,
    b: str = Input(),
    c: str = Input(description="text"),
    d: str = helper("text"),
    e: str = SHARED,
    f: str = None,  # type: ignore[assignment]
    g: str = "x",
    h: str = Input(default=None),
    i: str = Input(None),
    j: str = Input("x"),
    k: str = cog.Input(default=None, description="text"),
) -> str: ...


def test_knows_whether_a_default_is_written():
    handler = find_handler(defaults, "predict")
    written = [p.name for p in handler.parameters if names_default(handler, p)]
    assert "".join(written) == "fghijk"


def test_a_function_without_source_is_refused():
    namespace: dict[str, Any] = {}
    exec("def run() -> str: ...", namespace)
    with pytest.raises(ConfigError, match="source of run"):
        is_streaming(find_handler(namespace["run"], "predict"))


def test_handlers_are_frozen():
    handler = find_handler(function, "predict")
    assert isinstance(handler, Handler)
    frozen: Any = handler
    with pytest.raises(AttributeError):
        frozen.name = "other"


def test_the_working_directory_decides(folder, tmp_path_factory):
    write(folder, "class Runner: ...\n")
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    with pytest.raises(ConfigError, match="elsewhere"):
        load_reference("predict.py")


def test_the_users_files_import_each_other(folder, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    write(folder, "VALUE = 7\n", "beside_the_predictor.py")
    write(folder, "from beside_the_predictor import VALUE\nclass Runner: ...\n")
    assert load_reference("predict.py").__name__ == "Runner"
    load_reference("predict.py")
    assert sys.path[0] == str(folder)
    assert sys.path.count(str(folder)) == 1
