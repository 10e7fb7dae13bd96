"""`cog-adapt serve`, and the app that a folder names."""

import contextlib
import sys

import pytest

from cog_adapt.server.command.local_server import local_server
from cog_adapt.server.command.serve import load_function, read_reference
from cog_adapt.server.errors import ConfigError
from tests.cog_adapt.command.test_main import cog_adapt
from tests.cog_adapt.server.command.conftest import make_folder

PREDICTOR = "import torch\n\ndef run(number: int = 1) -> int: return number + 1\n"
APP = """
import sys

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from cog_adapt import Settings, create_app
from policy import refuses


def build(settings: Settings) -> FastAPI:
    app = create_app(settings)

    @app.middleware("http")
    async def decide(request: Request, follow):
        if refuses(request.url.path):
            return JSONResponse({"detail": "our policy"}, 451)
        if request.url.path == "/predictions/modules":
            from lazy import VALUE

            return JSONResponse([VALUE, *sys.modules])
        return await follow(request)

    return app
"""
NAMED = '[tool.cog-adapt]\napp = "server.app:build"\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A predictor that needs torch, and an app with a policy."""
    folder = tmp_path_factory.mktemp("named")
    make_folder(folder, PREDICTOR)
    (folder / "cog.yaml").write_text("run: predict.py:run\n")
    (folder / "pyproject.toml").write_text(NAMED)
    (folder / "server").mkdir()
    (folder / "server" / "app.py").write_text(APP)
    (folder / "policy.py").write_text("def refuses(path): return path == '/predictions/secret'")
    (folder / "lazy.py").write_text("VALUE = 'from the folder'")
    (folder / "rich.py").write_text("raise RuntimeError('the folder has its own rich')")
    return folder


@pytest.fixture(scope="module")
def server(folder):
    with contextlib.ExitStack() as stack:
        with contextlib.chdir(folder):  # for its start alone
            client = stack.enter_context(local_server("predict", {}))
        client.wait_until_ready(60)
        yield client


def test_the_app_of_the_folder_is_served_with_all_that_it_adds(server):
    assert server.request("POST", "/predictions", {"input": {}}).json()["output"] == 2
    refused = server.request("GET", "/predictions/secret")
    assert (refused.status_code, refused.json()) == (451, {"detail": "our policy"})


def test_the_front_process_has_no_torch_though_the_predictor_has(server):
    value, *modules = server.request("GET", "/predictions/modules").json()
    assert value == "from the folder"
    assert {"fastapi", "policy", "server.app"} <= {*modules}
    assert {"torch", "numpy", "predict"}.isdisjoint(modules)


def test_a_single_prediction_is_under_the_policy_too(folder):
    (folder / "policy.py").write_text("def refuses(path): return path.startswith('/predictions')")
    done = cog_adapt(folder, "predict")
    assert done.returncode == 1
    assert "our policy" in done.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[tool.cog-adapt", "pyproject.toml cannot be read"),
        ('[tool.cog-adapt]\napp = "server.app"', 'allowed: .*MODULE:FUNCTION"'),
        ("[tool.cog-adapt]\napp = 1", "allowed"),
        ('[tool.cog-adapt]\napps = "server.app:build"', "allowed"),
        ('[tool.cog_adapt]\napp = "server.app:build"', r"\[tool.cog_adapt\] .*\[tool.cog-adapt\]"),
        ("[tool.cog-adapt]", "allowed"),
        ("[tool]\ncog-adapt = 1", "allowed"),
    ],
)
def test_a_name_that_cannot_be_read_is_refused(tmp_path, text, reason):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ConfigError, match=reason):
        read_reference(tmp_path / "pyproject.toml")


@pytest.mark.parametrize("text", [None, "", "[tool.ruff]\nline-length = 100"])
def test_a_folder_need_not_name_an_app(tmp_path, text):
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    assert read_reference(tmp_path / "pyproject.toml") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "ModuleNotFoundError: there is no module 'own_app'"),
        ("import nowhere", "No module named 'nowhere' .*own_app.py, line 1"),
        ("\n1 / 0", "ZeroDivisionError: division by zero .*own_app.py, line 2"),
        ("def (", "SyntaxError"),
        ("other = 1", "own_app has no function build"),
        ("build = 1", "own_app has no function build"),
    ],
)
def test_an_app_that_cannot_be_loaded_is_an_error_that_names_the_place(
    tmp_path, monkeypatch, text, reason
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    if text is not None:
        (tmp_path / "own_app.py").write_text(text)
    try:
        with pytest.raises(ConfigError, match=f"app 'own_app:build' of pyproject.toml.*{reason}"):
            load_function("own_app:build", tmp_path)
    finally:
        sys.modules.pop("own_app", None)


def test_an_app_may_not_take_the_name_of_a_module_in_use(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    (tmp_path / "json.py").write_text("build = print")
    with pytest.raises(ConfigError, match="'json' is the name of a module in use; rename"):
        load_function("json:build", tmp_path)


@pytest.mark.parametrize(
    ("app", "reason"),
    [
        ("import nowhere", "cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("def build(settings): return 7", "returned 7; it must return a FastAPI app"),
    ],
)
def test_no_server_starts_without_the_app_that_is_named(tmp_path, app, reason):
    make_folder(tmp_path, PREDICTOR)
    (tmp_path / "pyproject.toml").write_text('[tool.cog-adapt]\napp = "own:build"\n')
    (tmp_path / "own.py").write_text(app)
    done = cog_adapt(tmp_path, "serve", PORT="0")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ERROR: app 'own:build'")
    assert reason in last
