"""From the inputs of a request to the arguments of run()."""

import os
from pathlib import Path as PlainPath

import cog
import pytest
from cog import Input

from cog_adapt.server.errors import InputError
from cog_adapt.server.schema.loader import find_handler
from cog_adapt.server.worker.inputs import InputReader

SOURCE = """
    from pathlib import Path as PlainPath
    from typing import Any
    import cog
    from cog import Input

    def shown(value):
        if isinstance(value, list):
            return [shown(item) for item in value]
        if isinstance(value, PlainPath):
            return [type(value).__name__, str(value), value.read_text()]
        if hasattr(value, "read"):
            return [value.name, value.read().decode()]
        return repr(value)

    class Runner:
        def run(
            self,
            path: cog.Path | None = None,
            plain: PlainPath | None = None,
            paths: list[cog.Path] | None = None,
            file: cog.File | None = None,
            secret: cog.Secret | None = None,
            number: int = Input(default=1, ge=0),
            numbers: list[int] = [],
            ratio: float = 0.5,
            text: str = Input(default="t"),
            maybe: int | None = Input(default=None),
            fixed: cog.Path = Input(default="data:text/plain,fixed"),
            fail: bool = False,
        ) -> Any:
            given = {name: value for name, value in locals().items() if name != "self"}
            if fail:
                raise ValueError(str(path))
            return {name: shown(value) for name, value in given.items()}
"""


@pytest.fixture(scope="module")
def model(launch):
    return launch(SOURCE, egress_allow=("127.0.0.1",), user_agent="agent/1", max_file_bytes=10_000)


def test_files_are_removed_after_a_failure_too(model):
    reports = model.run(path="data:text/plain,x", fail=True)
    path = reports.error.rpartition(" ")[2]
    assert path.endswith("file.txt")
    assert not os.path.exists(path)


def test_an_address_that_is_not_allowed_is_refused(launch, httpserver):
    model = launch(SOURCE)
    httpserver.expect_request("/secret").respond_with_data("secret")
    error = model.run(path=httpserver.url_for("/secret")).error
    assert error.startswith("Input validation error: 'localhost' is not reached for a caller")
    assert not httpserver.log


def test_async_runs_get_their_files_too(launch, httpserver):
    model = launch(
        """
        import cog

        async def run(path: cog.Path) -> str:
            return path.read_text()
        """,
        reference="predictor.py:run",
        egress_allow=("127.0.0.1",),
    )
    httpserver.expect_request("/x").respond_with_data("content")
    assert model.run(path=httpserver.url_for("/x")).output == "content"
    assert model.run(path="/etc/passwd").error.startswith("Input validation error: input 'path'")


def handle(
    path: cog.Path,
    paths: list[cog.Path] = [],  # noqa: B006
    file: cog.File | None = None,
    secret: cog.Secret = Input(),
    number: int = Input(default=None),
    numbers: list[int] = Input(default=[]),
    either: int | str = 1,
    text: str = "t",
) -> str:
    return text


@pytest.fixture
def reader():
    return InputReader.of(find_handler(handle, "predict"))


def opened(path):
    return f"opened {path}"


def test_only_inputs_with_a_default_are_filled_in(reader):
    assert reader.read(b'{"text": "given", "unknown": 1}') == {
        "paths": [],
        "file": None,
        "secret": None,
        "numbers": [],
        "either": 1,
        "text": "given",
        "unknown": 1,
    }


def test_files_are_named_in_the_order_in_which_they_are_put_in(reader):
    given = {"file": "data:,f", "paths": ["data:,a", "http://h/b"], "path": "https://h/p"}
    given |= {"text": "data:,no file", "either": "data:,no file"}
    assert reader.urls(given) == ["https://h/p", "data:,a", "http://h/b", "data:,f"]
    paths = iter([PlainPath("p"), PlainPath("a"), PlainPath("b"), PlainPath("f")])
    arguments = reader.convert(given | {"other": 1}, paths, opened)
    assert arguments == {
        "path": cog.Path("p"),
        "paths": [cog.Path("a"), cog.Path("b")],
        "file": "opened f",
        "text": "data:,no file",
        "either": "data:,no file",
        "other": 1,
    }
    assert type(arguments["path"]) is type(cog.Path("p"))


def test_values_are_converted_by_type_and_others_left(reader):
    given = {"secret": "s", "number": 2.0, "numbers": [1.0, 1.5, "x"], "either": 2.0, "text": 3.0}
    arguments = reader.convert(given, iter([]), opened)
    assert arguments["secret"].get_secret_value() == "s"
    assert repr(arguments["number"]) == "2"
    assert repr(arguments["numbers"]) == "[1, 1.5, 'x']"
    assert (repr(arguments["either"]), repr(arguments["text"])) == ("2.0", "3.0")
    empty = reader.convert({"secret": None, "path": None, "number": None}, iter([]), opened)
    assert empty == {"secret": None, "path": None, "number": None}


def test_a_long_path_is_cut_in_the_message(reader):
    with pytest.raises(InputError) as caught:
        reader.urls({"path": "/" + "x" * 80})
    assert str(caught.value) == (
        f"input 'path' is '/{'x' * 79}…'; allowed: http(s):// and data: URLs, "
        "no paths of this machine. Upload the file and send its URL, or send it as a data URL."
    )
    with pytest.raises(InputError, match=f"input 'path' is '/{'x' * 79}'; allowed"):
        reader.urls({"path": "/" + "x" * 79})
