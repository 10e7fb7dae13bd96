"""Records the OpenAPI documents."""

import json
import tempfile
from pathlib import Path

from bench.house.normal import to_json
from bench.house.tree import Tree, fill

_OTHERS: dict[str, dict[str, str]] = {
    "kinds": {"COG_PREDICT_TYPE_STUB": "kinds.py:Predictor"},
    "words": {"COG_PREDICT_TYPE_STUB": "words.py:Predictor"},
    "work": {
        "COG_PREDICT_TYPE_STUB": "work.py:Predictor",
        "COG_TRAIN_TYPE_STUB": "work_train.py:train",
    },
    "broken": {"COG_PREDICT_TYPE_STUB": "broken.py:Predictor"},
}


def documents(tree: Tree) -> dict[str, str]:
    """Make the documents of several predictors, as `python -m server openapi` prints them."""
    found = {"openapi/own.json": _document(tree, tree.path, {})}
    for name, stubs in _OTHERS.items():
        with tempfile.TemporaryDirectory() as folder:
            files = {stub.partition(":")[0] for stub in stubs.values()}
            found[f"openapi/{name}.json"] = _document(tree, fill(Path(folder), *files), stubs)
    return found


def _document(tree: Tree, folder: Path, stubs: dict[str, str]) -> str:
    ended = tree.run(["-m", "server", "openapi"], folder, stubs)
    if ended.code != 0:
        return f"exit code {ended.code}\n{ended.err}"
    return to_json(json.loads(ended.out))
