"""From the inputs of a request to the arguments of run()."""

from pathlib import Path as PlainPath

import cog
import pytest
from cog import Input

from cog_adapt.server.errors import InputError
from cog_adapt.server.schema.loader import find_handler
from cog_adapt.server.worker.inputs import InputReader


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
