"""Makes a data folder, adapters and a database with a tree's server, for later ones to open.

    python -m bench.house.old_data --tree DIR --output tests/cog_adapt/data/made_at_b702e72.tar.gz

The archive holds:

- `actions/`: a predictor of its own (`actions.py`), and in `.data` what a server left that was
  killed: predictions that succeeded, failed and were canceled, one with large values, one whose
  id was chosen by PUT, one whose webhook was delivered and one whose webhook is owed, two that
  ran (one may run again, one may not) and one that waited.
- `tickets/`: the same of the tree's own `predict.py` and `train.py`: an adaptation, a training,
  and a training that was killed behind its first checkpoint; `weights` has their files.
- `keys`: the file of API_KEYS_FILE, made by `python -m server key`.
- `made.json`: what the server answered about all this when it was made.
"""

import argparse
import base64
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from bench.house.tree_server import Client, Server, wait_for

OWED = "http://127.0.0.1:21877"  # below the ephemeral ports of common systems
LARGE = "large " * 20_000
TEXTS = ["My parcel has not come.", "I cannot log in any more."]
PUT = {"input": {"text": "chosen"}}
ENDED = ("plain", "failed", "canceled", "large", "chosen", "told")
TRAINING = {"method": "bias", "steps": 60, "batch_size": 8, "seed": 3}
_ON_STEP = re.compile(r"step (2[1-9]|[345]\d)/60")  # a checkpoint is kept every 20


def main() -> None:
    """Make the archive."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--tree", type=Path, required=True, help="whose server makes it")
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    tree = chosen.tree.resolve()
    with tempfile.TemporaryDirectory(prefix="made") as name:
        folder = Path(name)
        key = _make_key(tree, folder)
        actions, tickets = actions_server(tree, folder, key), tickets_server(tree, folder, key)
        shutil.copy(Path(__file__).parent / "old_actions.py", actions.data / "actions.py")
        made = {"key": key, "actions": _use_actions(actions), "tickets": _use_tickets(tickets)}
        (folder / "made.json").write_text(json.dumps(made, indent=1))
        (actions.data / "begun").unlink()
        with tarfile.open(chosen.output, "w:gz") as archive:
            archive.add(folder, ".", filter=_nameless)


def actions_server(tree: Path, folder: Path, key: str) -> Server:
    """Return a tree's server on the folder `actions`."""
    data = folder / "actions"
    data.mkdir(exist_ok=True)
    env = {"API_KEYS_FILE": str(folder / "keys"), "COG_MAX_CONCURRENCY": "2"}
    return Server(tree, data, data, "actions.py:Predictor", key, env)


def tickets_server(tree: Path, folder: Path, key: str) -> Server:
    """Return a tree's server of its own predictor, on the folder `tickets`."""
    env = {"API_KEYS_FILE": str(folder / "keys"), "COG_TRAIN_TYPE_STUB": "train.py:Trainer"}
    data = folder / "tickets"
    data.mkdir(exist_ok=True)
    return Server(tree, tree, data, "predict.py:Predictor", key, env)


def _make_key(tree: Path, folder: Path) -> str:
    command = [sys.executable, "-m", "server", "key", "old", "--scope", "predict", "--scope"]
    env = os.environ | {"PYTHONPATH": str(tree)}
    made = subprocess.run(
        [*command, "train"], cwd=folder, env=env, check=True, capture_output=True, text=True
    )
    _, key, _, line = made.stdout.splitlines()
    (folder / "keys").write_text(f"# of {tree.name}\n{line}\n")
    return key


def _use_actions(server: Server) -> dict[str, Any]:
    with server.running() as client, _receiver() as url:
        ends: dict[str, Any] = {
            "webhook": f"{url}/told",
            "webhook_events_filter": ["start", "completed"],
        }
        client.submit("plain", {"text": "plain"}, context={"from": "before"})
        client.submit("failed", {"text": "failed", "action": "fail"})
        client.submit("canceled", {"text": "canceled", "action": "wait"})
        client.submit("large", {"text": LARGE})
        client.submit("told", {"text": "told"}, **ends)
        client.ask("PUT", "/predictions/chosen", PUT)
        client.ask("POST", "/predictions/canceled/cancel")
        for name in ENDED:
            client.ended(name)
    with server.running() as client:
        made = {
            "accounts": {name: client.account(name) for name in ENDED},
            "replayed": client.ask("PUT", "/predictions/chosen", PUT),
        }
        made["owed"] = _leave_unfinished(client)
    return made


def _leave_unfinished(client: Client) -> dict[str, Any]:
    def ends(name: str) -> dict[str, Any]:
        return {"webhook": f"{OWED}/{name}", "webhook_events_filter": ["completed"]}

    client.submit("owed", {"text": "owed"}, **ends("owed"))
    client.ended("owed")
    wait_for(lambda: client.account("owed")["deliveries"][0]["attempts"] or None)
    waits = {"action": "wait"}
    client.submit("again", {"text": "again", **waits}, retries=1, **ends("again"))
    client.submit("never", {"text": "never", **waits}, **ends("never"))
    wait_for(lambda: all(client.record(n)["output"] for n in ("again", "never")) or None)
    client.submit("queued", {"text": LARGE}, **ends("queued"))
    owed = client.account("owed")
    client.kill()
    return owed


def _use_tickets(server: Server) -> dict[str, Any]:
    examples = (server.tree / "examples" / "tickets.jsonl").read_text()
    training = TRAINING | {"examples": examples}
    with server.running() as client:
        adapting = {"texts": TEXTS, "examples": examples, "rank": 1, "steps": 4, "seed": 1}
        client.submit("adapted", adapting)
        adapted = client.ended("adapted")["output"]
        client.submit("trained", training, "trainings")
        trained = client.ended("trained", "trainings")["output"]
        content = base64.b64decode(trained["weights"].partition(",")[2])
        (server.data / "trained.safetensors").write_bytes(content)
    weights = {"COG_WEIGHTS": str(server.data / "trained.safetensors")}
    with replace(server, env={**server.env, **weights}).running() as client:
        made = {
            "by_id": _predict(client, adapter=adapted["adapter"]),
            "by_weights": _predict(client),
            "accounts": {"adapted": client.account("adapted")},
            "trainings": {"trained": client.account("trained", "trainings")},
        }
        client.submit("killed", training, "trainings", retries=1)
        wait_for(lambda: _ON_STEP.search(client.record("killed", "trainings")["logs"]))
        client.kill()
    return made


def _predict(client: Client, **more: str) -> Any:  # noqa: ANN401
    answer = client.ask("POST", "/predictions", {"input": {"texts": TEXTS, **more}})
    return answer["output"]


def _nameless(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    is_left_out = entry.name.endswith(("-shm", ".pyc", "__pycache__"))
    return None if is_left_out else entry


@contextlib.contextmanager
def _receiver() -> Iterator[str]:
    """Run a server that receives webhooks silently."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


if __name__ == "__main__":
    main()
