"""The commands `adapters …`, on a folder and at a server."""

import json

import pytest
from typer.testing import CliRunner

from cog_adapt.command.app import app
from cog_adapt.runner.storage.store import AdapterStore
from tests.cog_adapt.runner.storage.made import adapter_of


def invoke(*arguments):
    return CliRunner().invoke(app, ["adapters", *arguments])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a predictor with two adapters; their ids."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("API_KEY", raising=False)
    monkeypatch.setenv("WEIGHTS_DIR", str(tmp_path / "weights"))
    store = AdapterStore(tmp_path / "weights" / "adapters")
    return [store.put(adapter_of(number)).stem for number in (1, 2)]


def test_without_a_url_the_commands_are_about_this_folder(folder, tmp_path):
    listed = invoke("ls")
    assert (listed.exit_code, len(listed.stdout.splitlines())) == (0, 3)
    named = invoke("name", folder[0], "support")
    assert (named.exit_code, named.stdout) == (0, "support@v1\n")
    shown = json.loads(invoke("show", "support").stdout)
    assert shown["id"] == folder[0]
    assert json.loads(invoke("ls", "--name", "support", "--json").stdout) == [shown]
    assert len(json.loads(invoke("ls", "--label", "a", "--json").stdout)) == 2
    assert json.loads(invoke("ls", "--label", "c", "--json").stdout) == []
    got = invoke("get", "support", "-o", "a.safetensors")
    assert (got.exit_code, got.stderr) == (0, "written: a.safetensors\n")
    assert (tmp_path / "a.safetensors").read_bytes() == adapter_of(1).to_bytes()
    given = invoke("give", "support", "ada")
    assert (given.exit_code, given.stderr) == (0, f"given to ada: {folder[0]} support@v1\n")
    removed = invoke("rm", "support", folder[1])
    assert removed.stderr == f"removed: support\nremoved: {folder[1]}\n"
    assert len(invoke("ls").stdout.splitlines()) == 1


def test_a_mistake_is_one_line_and_an_exit_code(folder):
    for arguments, code, says in (
        (("show", "none"), 2, "error: there is no adapter 'none' here"),
        (("name", folder[0], "a b"), 2, "error: name is 'a b'"),
        (("give", folder[0], "-"), 2, "error: owner '-': write 1 to 64"),
        (("get", folder[0], "-o", "no/file"), 1, "error: no/file cannot be written"),
        (("ls", "--url", "http://127.0.0.1:9"), 1, "error: http://127.0.0.1:9 cannot be reached"),
        (("get", folder[0], "--format", "onnx"), 2, "Usage:"),
    ):
        done = invoke(*arguments)
        assert (done.exit_code, done.stdout) == (code, ""), arguments
        assert done.stderr.startswith(says)


def test_at_a_server_the_key_comes_from_the_environment(httpserver, monkeypatch):
    monkeypatch.setenv("API_KEY", "secret")
    made = {"id": "a1", "owner": "ada", "name": "n", "version": 2}
    headers = {"Authorization": "Bearer secret"}
    for method, path, body, status in (
        ("POST", "/adapters", made, 201),
        ("PATCH", "/adapters/a1", made, 200),
        ("DELETE", "/adapters/n%40v2", {"removed": True, "children": ["c1", "c2"]}, 200),
    ):
        httpserver.expect_request(
            path.replace("%40", "@"), method=method, headers=headers
        ).respond_with_json(body, status)
    at = ("--url", httpserver.url_for("/"))
    put = invoke("put", __file__, "--name", "n", *at)
    assert (put.exit_code, put.stdout) == (0, "a1\n")
    assert json.loads(httpserver.log[-1][0].data) == {"name": "n"}
    removed = invoke("rm", "n@v2", *at)
    assert removed.stderr == "removed: n@v2; made from it: c1, c2\n"


@pytest.fixture
def moving(folder, tmp_path, monkeypatch):
    """The variables of a server with a store, and a data folder."""
    pytest.importorskip("obstore", reason="obstore is not installed")
    monkeypatch.setenv("ADAPTER_STORE", f"file://{tmp_path}/far")
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    return folder


def test_a_folder_gets_into_the_store_once(moving, monkeypatch, tmp_path):
    assert invoke("name", moving[1], "support").stdout == "support@v1\n"
    monkeypatch.setenv("WEIGHTS_DIR", str(tmp_path / "other"))
    store = AdapterStore(tmp_path / "other" / "adapters")
    store.put(adapter_of(3))
    monkeypatch.delenv("ADAPTER_STORE")
    assert invoke("name", adapter_of(3).id, "support").stdout == "support@v1\n"
    monkeypatch.setenv("ADAPTER_STORE", f"file://{tmp_path}/far")
    done = invoke("move-to-store")
    assert (done.exit_code, done.stdout.splitlines()) == (
        0,
        [
            f"support@v1 is support@v2 in the store: {adapter_of(3).id}",
            f"1 adapters are in file://{tmp_path}/far",
            "0 decisions with their receipts were moved",
            "large texts of records stay in DATA_DIR: DATABASE_URL names no PostgreSQL",
        ],
    )
    assert "support@v2 is" not in invoke("move-to-store").stdout


def test_a_move_without_a_store_or_beside_a_server_is_refused(moving, monkeypatch, tmp_path):
    served = AdapterStore(tmp_path / "weights" / "adapters", serves=True)
    refused = invoke("move-to-store")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: a server, or another command, uses the adapters of ")
    served.close()
    monkeypatch.delenv("ADAPTER_STORE")
    refused = invoke("move-to-store")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: ADAPTER_STORE is not set.")
