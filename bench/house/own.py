"""Records the behaviour of the tree's own predictor and training."""

import tempfile
from pathlib import Path

from bench.house.files import names_in
from bench.house.normal import Json, to_json
from bench.house.routes import summary
from bench.house.served import Served, served
from bench.house.telemetry import log_keys, metric_names
from bench.house.tree import Tree


def own(tree: Tree) -> dict[str, str]:
    """Make `own.json`, `own.metrics.txt`, `own.log_keys.json` and `files.txt`."""
    with tempfile.TemporaryDirectory() as name:
        data, weights = Path(name) / "data", Path(name) / "weights"
        more = {"DATA_DIR": str(data), "WEIGHTS_DIR": str(weights), "DEVICE": "cpu"}
        with served(tree, tree.path, more) as server:
            answers = _answers(server, (tree.path / "examples/tickets.jsonl").read_text())
            numbers = metric_names(server)
            server.stop()
            keys = log_keys([server.text()])
        left = f"DATA_DIR\n{names_in(data)}\nWEIGHTS_DIR\n{names_in(weights)}"
    return {
        "own.json": to_json(answers),
        "own.metrics.txt": numbers,
        "own.log_keys.json": to_json(keys),
        "files.txt": left,
    }


def _answers(server: Served, examples: str) -> Json:
    few = {"text": "Where is my parcel?", "examples": examples, "steps": 2}
    adapted = server.ask("POST", "/predictions", {"input": few})
    adapter = adapted.json["output"]["adapter"]
    named = {"text": "Where is my parcel?", "adapter": adapter}
    labels = {"texts": ["a", "b"] * 20_000, "labels": ["x", "y"]}
    asked = {
        "with an adapter": ("POST", "/predictions", {"input": named}),
        "with no such adapter": ("POST", "/predictions", {"input": {**named, "adapter": "none"}}),
        "with labels alone": ("POST", "/predictions", {"input": {**labels, "texts": ["a", "b"]}}),
        "with wrong examples": ("POST", "/predictions", {"input": {**few, "examples": "{"}}),
        "with steps out of range": ("POST", "/predictions", {"input": {**few, "steps": 0}}),
        "training": ("POST", "/trainings", {"input": {"examples": examples, "steps": 2}}),
        "self-test": ("GET", "/selftest", None),
        "self-test again": ("POST", "/selftest", None),
        "health": ("GET", "/health-check", None),
        "readiness": ("GET", "/readyz", None),
        "root": ("GET", "/", None),
    }
    known = {adapter: "<adapter>"}
    answers = {name: summary(server.ask(*each), known) for name, each in asked.items()}
    return {"with examples": summary(adapted, known), **answers}
