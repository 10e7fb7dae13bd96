"""Runs a server through events that show in its metrics, logs and webhooks."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.house.receiver import Receiver, receiver
from bench.house.served import Served, served
from bench.house.tree import Tree, fill

STUBS = {
    "COG_PREDICT_TYPE_STUB": "work.py:Predictor",
    "COG_TRAIN_TYPE_STUB": "work_train.py:train",
}
SECRET = "whsec_" + "c25hcHNob3RzbmFwc2hvdHNuYXBzaG90"
_ASYNC = {"prefer": "respond-async"}


@contextmanager
def scene(tree: Tree, **more: str) -> Iterator[tuple[Served, Receiver, Path]]:
    """Run a server with a predictor and a training, and a receiver of its webhooks."""
    with tempfile.TemporaryDirectory() as name, receiver() as taken:
        folder = fill(Path(name), "work.py", "work_train.py")
        hooks = {"WEBHOOK_SECRET": SECRET, "WEBHOOK_AUTH_TOKEN": "token"}
        throttle = {"COG_THROTTLE_RESPONSE_INTERVAL": "0", "DATA_DIR": str(folder / ".data")}
        with served(tree, folder, {**STUBS, **hooks, **throttle, **more}) as server:
            yield server, taken, folder


def play(server: Served, taken: Receiver) -> None:
    """Cause a success, a failure, a cancel, a training and a webhook refused for good."""
    _start(server, taken, "predictions", "tell", {"action": "tell"})
    server.until(lambda: taken.is_complete("/tell"))
    _start(server, taken, "predictions", "fail", {"action": "fail"})
    server.until(lambda: taken.is_complete("/fail"))
    cancel(server, taken)
    _start(server, taken, "trainings", "train", {"name": "n", "steps": 2})
    server.until(lambda: taken.is_complete("/train"))
    _start(server, taken, "predictions", "gone", {"action": "say"})
    server.until(lambda: taken.is_complete("/gone"))


def cancel(server: Served, taken: Receiver) -> None:
    """Cancel a prediction after its output was sent."""
    _start(server, taken, "predictions", "cancel", {"action": "wait"})
    server.until(lambda: any(each.json.get("output") for each in taken.at("/cancel")))
    server.ask("POST", "/predictions/of-cancel/cancel")
    server.until(lambda: taken.is_complete("/cancel"))


def _start(
    server: Served, taken: Receiver, nouns: str, name: str, inputs: dict[str, object]
) -> None:
    events = ["start", "output", "logs", "completed"]
    hook = {"webhook": f"{taken.url}/{name}", "webhook_events_filter": events}
    body = {"id": f"of-{name}", "input": inputs, **hook}
    answer = server.ask("POST", f"/{nouns}", body, _ASYNC)
    if answer.status != 202:
        raise RuntimeError(f"not accepted: {answer}")


def reject(server: Served) -> None:
    """Send requests that are refused: a wrong input, and one beyond capacity."""
    server.ask("POST", "/predictions", {"input": {"action": "sing"}})
    server.ask("POST", "/predictions", {"id": "long", "input": {"action": "wait"}}, _ASYNC)
    server.ask("POST", "/predictions", {"input": {}}, _ASYNC)
    server.ask("POST", "/predictions", {"input": {}}, _ASYNC)
    server.ask("POST", "/predictions/long/cancel")
    server.until(lambda: server.ask("GET", "/predictions/long").json["status"] == "canceled")


def crash(server: Served) -> None:
    """Let the worker die, and wait until it is back."""
    server.ask("POST", "/predictions", {"input": {"action": "die"}})
    server.until(lambda: server.health() == "READY")
