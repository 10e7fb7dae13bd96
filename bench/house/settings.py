"""Records every setting: variable, default, and the error for a wrong value."""

import json
import tempfile
from pathlib import Path
from typing import Any

from bench.house.normal import Json, body_shape, normal, to_json
from bench.house.selftests import run_selftest
from bench.house.served import HasEndedError, served
from bench.house.tree import Tree, fill

_STUB = {"COG_PREDICT_TYPE_STUB": "work.py:Predictor"}
_INSIDE = """
import dataclasses, importlib, json

def first(*names):
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not name.startswith(error.name or "-"):
                raise
    raise SystemExit("none of " + ", ".join(names))

server = first("cog_adapt.server.settings", "server.settings").Settings
runner = first("cog_adapt.runner.config", "runner.config").RunnerSettings
found = {"server": {}, "runner": {}}
for name, field in server.model_fields.items():
    entry = {"default": repr(field.default), "type": str(field.annotation),
            "bounds": [repr(each) for each in field.metadata if "function" not in repr(each)],
            "description": field.description, "variable": name.upper()}
    found["server"][name] = entry
for field in dataclasses.fields(runner):
    entry = {"default": repr(field.default), "variable": field.name.upper()}
    found["runner"][field.name] = entry
print(json.dumps(found))
"""
_SERVER_WRONG: dict[str, tuple[str, ...]] = {
    "PORT": ("x", "-1", "65536"),
    "COG_PREDICT_TYPE_STUB": ("nothing.py:Predictor", "work.py", "work.py:Nobody"),
    "COG_TRAIN_TYPE_STUB": ("nothing.py:train",),
    "COG_MAX_CONCURRENCY": ("0", "many"),
    "COG_SETUP_TIMEOUT": ("-1", "inf"),
    "COG_THROTTLE_RESPONSE_INTERVAL": ("-1",),
    "COG_STREAM_HISTORY_CAPACITY": ("-1",),
    "WEBHOOK_AUTH_TOKEN": ("é",),
    "LOG_FORMAT": ("xml",),
    "COG_LOG_LEVEL": ("loud",),
    "STRICT_COG": ("perhaps",),
    "MAX_QUEUE": ("-1",),
    "DATA_DIR": ("work.py",),
    "DATABASE_URL": ("mysql://somewhere/x", "nothing"),
    "RETENTION_DAYS": ("0", "nan"),
    "RETENTION_COUNT": ("0",),
    "DRAIN_SECONDS": ("-1",),
    "MAX_CRASHES": ("0",),
    "EGRESS_ALLOW": ("10.0.0.0/99", "a b"),
    "WEBHOOK_SECRET": ("whsec_?",),
    "MAX_BODY_BYTES": ("0",),
    "MAX_FILE_BYTES": ("0",),
    "MAX_STRING_LENGTH": ("0",),
    "BODY_SECONDS": ("0",),
    "API_KEYS_FILE": ("nothing", "work.py"),
    "RATE_LIMIT": ("many",),
    "CORS_ORIGINS": ("example.com", "https://example.com/path"),
    "COG_TRACE_HEADER_FORMAT": ("xml",),
    "OTEL_TRACES_EXPORTER": ("carrier-pigeon",),
    "OTEL_TRACES_SAMPLER": ("dice",),
}
_RUNNER_WRONG = {
    "DEVICE": "tpu",
    "PRECISION": "fp8",
    "SERVE_MODE": "train",
    "BATCH_SIZE": "0",
    "SERVED_ADAPTERS": "x",
    "MODEL": "nothing",
}


def settings(tree: Tree) -> dict[str, str]:
    """Make `settings.json`."""
    with tempfile.TemporaryDirectory() as name:
        folder = fill(Path(name), "work.py")
        ended = tree.run(["-c", _INSIDE], folder)
        if ended.code != 0:
            raise RuntimeError(ended.err)
        found: dict[str, Any] = json.loads(ended.out)
        found["refused by the server"] = _server_refusals(tree, folder)
        found["refused by the self-test"] = {
            f"{name}={value}": _selftest_refusal(tree, folder, {name: value})
            for name, value in _RUNNER_WRONG.items()
        }
    return {"settings.json": to_json(found)}


def _selftest_refusal(tree: Tree, folder: Path, more: dict[str, str]) -> Json:
    own = tree.path / "task.py"  # before the move, the default task lay in the runner
    task = [f"{own}:TextClassification"] if own.exists() else []
    ended = run_selftest(tree, folder, task, more)
    text = normal(ended.out + ended.err, {str(folder): "<folder>"})
    return {"code": ended.code, "printed": text.splitlines()}


def _server_refusals(tree: Tree, folder: Path) -> Json:
    return {
        f"{name}={value}": _refusal(tree, folder, name, value)
        for name, values in _SERVER_WRONG.items()
        for value in values
    }


def _refusal(tree: Tree, folder: Path, name: str, value: str) -> Json:
    more = {**_STUB, "DATA_DIR": str(folder / ".data"), name: value}
    known = {str(folder): "<folder>"}
    try:
        with served(tree, folder, more) as server:
            answer = server.ask("GET", "/health-check")
            return {"it serves": body_shape("json", answer.body, known)}
    except HasEndedError as error:
        lines = [line for line in error.log.splitlines() if not line.startswith("{")]
        entry = [normal(line, known) for line in lines]
        return {"code": error.code, "printed": entry, "logged": _events(error.log)}


def _events(text: str) -> list[str]:
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    kept = [each for each in lines if each.get("level") in ("error", "warning")]
    return sorted({normal(str(each["event"])) for each in kept})
