"""The adapters of a server, as its client on the command line sees them."""

import contextlib
import shutil

import pytest

from cog_adapt.server.command.local_server import local_server
from cog_adapt.server.command.served_adapters import RemoteAdapters
from cog_adapt.server.errors import InputError, UnavailableError
from tests.cog_adapt.server import kept_adapters
from tests.cog_adapt.server.command.conftest import make_folder

PREDICTOR = """\
from cog import BasePredictor
from kept_adapters import KeptAdapters


class Predictor(BasePredictor):
    def setup(self):
        self.adapters = KeptAdapters()
        self.adapters.put("command", b"before", name="old", version=1)

    def predict(self, content: str) -> str:
        return self.adapters.put("command", content.encode())["id"]
"""


@pytest.fixture(scope="module")
def keeper(tmp_path_factory):
    """A server in a process of its own, whose predictor keeps adapters."""
    folder = make_folder(tmp_path_factory.mktemp("keeper"), PREDICTOR)
    shutil.copy(kept_adapters.__file__, folder)
    with contextlib.ExitStack() as stack:
        with contextlib.chdir(folder):
            client = stack.enter_context(local_server("predict", {}))
        client.wait_until_ready(60)
        yield client


@pytest.fixture
def served(keeper):
    return RemoteAdapters(keeper)


def predict(keeper, content):
    body = {"input": {"content": content}}
    return keeper.request("POST", "/predictions", body).json()["output"]


def test_what_a_run_makes_is_there_when_it_has_ended(keeper, served):
    made = [predict(keeper, f"run {number}") for number in range(3)]
    assert {each["id"] for each in served.all(None, None)} >= set(made)
    assert served.show(made[0], "command")["owner"] == "command"
    assert [each["id"] for each in served.all(None, "old")] == [served.show("old", None)["id"]]


def test_one_goes_up_and_down_and_away(served, tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    made = served.put(tmp_path / "file")
    assert served.change(made["id"], None, {"name": "a"})["version"] == 1
    path = served.get("a@v1", None, "peft", tmp_path)
    assert path == tmp_path / f"{made['id']}.zip"
    assert path.read_bytes() == b"peft:" + b"x" * 3_000_000
    assert served.remove("a", None) == {"removed": True, "children": []}
    with pytest.raises(UnavailableError, match="404: there is no adapter 'a'"):
        served.show("a", None)
    with pytest.raises(UnavailableError, match="404: there is no adapter 'a'"):
        served.get("a", None, "peft", tmp_path)


def test_what_is_refused_is_an_error_in_its_words(served, tmp_path):
    (tmp_path / "file").write_bytes(b"bad")
    with pytest.raises(InputError, match="the file is no adapter"):
        served.put(tmp_path / "file")
    with pytest.raises(InputError, match="none cannot be read: No such file or directory"):
        served.put(tmp_path / "none")


def test_all_pages_are_asked_for(httpserver):
    url = httpserver.url_for("/")
    for cursor, found, rest in ((None, ["a", "b"], "x y"), ("x y", ["c"], None)):
        query = {"limit": "1000", "owner": "o", "label": "l"} | (
            {"cursor": cursor} if cursor else {}
        )
        page = {"results": [{"id": each} for each in found], "next": rest}
        httpserver.expect_request("/adapters", query_string=query).respond_with_json(page)
    from cog_adapt.server.command.client import Client

    with contextlib.closing(Client(url)) as client:
        assert [each["id"] for each in RemoteAdapters(client).all("o", None, "l")] == [
            "a",
            "b",
            "c",
        ]
