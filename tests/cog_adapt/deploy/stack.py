"""The monitoring of deploy/ with real programs, in a network namespace of its own.

    unshare --net --mount python -m tests.cog_adapt.deploy.stack FOLDER

The files of `deploy/monitoring/` are used unchanged: their host names lead to this host. A server
takes a load, each expression of the dashboard is asked, then the server is killed, and the alert
has to arrive at the webhook. FOLDER gets `found.json`, and `panels.json` to draw the panels from.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tests.cog_adapt.deploy.operators import DEPLOY, ROOT, program

SERVER, PROMETHEUS = "http://server:5000", "http://localhost:9090"
NAMES = "127.0.0.1 localhost server alertmanager receiver prometheus\n"
LOAD_SECONDS, ALERT_SECONDS, START_SECONDS = 75, 240, 120
MONITORING = DEPLOY / "monitoring"
DASHBOARD = json.loads((MONITORING / "grafana/dashboard.json").read_text())
ASKED = json.loads((ROOT / "examples/requests.json").read_text())


class Receiver(BaseHTTPRequestHandler):
    """Takes webhooks of Alertmanager and of the server."""

    alerts: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/alerts":
            self.alerts.extend(body["alerts"])
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def prepare(folder: Path) -> None:
    """Let this namespace have loopback, the names, and Alertmanager its template."""
    hosts = folder / "hosts"
    hosts.write_text(NAMES)
    share = program("promtool").parent.parent / "share"
    for command in (
        ["ip", "link", "set", "lo", "up"],
        ["mount", "--bind", str(hosts), "/etc/hosts"],
        ["mount", "-t", "overlay", "-o", f"lowerdir={share}:/usr/share", "none", "/usr/share"],
    ):
        subprocess.run(command, check=True)


@contextmanager
def running(name: str, command: Sequence[Any], folder: Path, **more: str) -> Iterator[None]:
    """Run a program, with its log in the folder, until the end."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [*map(str, command)], cwd=ROOT, env=os.environ | more, stdout=log, stderr=log
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


def until(get: Callable[[], Any], seconds: float, what: str) -> Any:
    """Return what is true at last."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        with suppress(OSError):
            if found := get():
                return found
        time.sleep(0.5)
    raise SystemExit(f"after {seconds} s: {what}")


def ask(url: str, body: object | None = None) -> Any:
    """Return the JSON of an answer."""
    content = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, content, {"Content-Type": "application/json"}), timeout=60) as answer:
        return json.load(answer)


def query(path: str, **asked: object) -> list[Any]:
    """Ask Prometheus."""
    found: list[Any] = ask(f"{PROMETHEUS}/api/v1/{path}?{urlencode(asked)}")["data"]["result"]
    return found


def plain(expression: str) -> str:
    """Return an expression of the dashboard as Grafana asks it."""
    return expression.replace("$__rate_interval", "1m").replace("$instance", ".*")


def load() -> None:
    """Send predictions, with examples and without, with webhooks, and more than are taken."""
    ends, number = time.monotonic() + LOAD_SECONDS, 0
    while time.monotonic() < ends:
        number += 1
        body = {"input": ASKED[0]["input"], "webhook": "http://receiver:8080/done"}
        ask(f"{SERVER}/predictions", body)
        if number % 20 == 1:
            taught = ASKED[1]["input"] | {"seed": number, "method": "auto"}
            threading.Thread(target=refused, args=[{"input": taught}]).start()
        crowd = [threading.Thread(target=refused, args=[body]) for _ in range(12)]
        for each in crowd:
            each.start()
        for each in crowd:
            each.join()
        time.sleep(0.3)


def refused(body: object) -> None:
    """Send a request that may be refused."""
    with suppress(OSError):
        ask(f"{SERVER}/predictions", body)


def main(folder: Path) -> None:
    """Run the stack, and write what was found."""
    prepare(folder)
    receiver = ThreadingHTTPServer(("127.0.0.1", 8080), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    prometheus = [program("prometheus"), f"--config.file={MONITORING / 'prometheus.yml'}"]
    manager = [program("prometheus-alertmanager"), f"--storage.path={folder / 'manager'}"]
    manager += [f"--config.file={MONITORING / 'alertmanager.yml'}", "--cluster.listen-address="]
    server = [sys.executable, "-m", "server", "--host", "127.0.0.1"]
    limits = {"COG_MAX_CONCURRENCY": "4", "MAX_QUEUE": "2", "EGRESS_ALLOW": "receiver"}
    data = {"DATA_DIR": str(folder / "records"), "WEIGHTS_DIR": str(folder / "weights")}
    found: dict[str, Any] = {}
    with (
        running("prometheus", [*prometheus, f"--storage.tsdb.path={folder / 'series'}"], folder),
        running("alertmanager", manager, folder),
    ):
        with running("server", server, folder, **limits, **data):
            until(lambda: ask(f"{SERVER}/readyz"), START_SECONDS, "the server is not ready")
            began = time.time()
            load()
            time.sleep(16)  # a scrape after the last request
            found["panels"] = answered()
            (folder / "panels.json").write_text(json.dumps(courses(began, time.time())))
        found["alert"] = until(server_down, ALERT_SECONDS, "no alert arrived")
    (folder / "found.json").write_text(json.dumps(found))


def server_down() -> dict[str, Any] | None:
    """Return the alert that the server is down, once it has arrived."""
    return next((a for a in Receiver.alerts if a["labels"]["alertname"] == "CogServerDown"), None)


def answered() -> dict[str, list[int]]:
    """Return how many series each expression of each panel answers."""
    return {
        panel["title"]: [
            len(query("query", query=plain(target["expr"]))) for target in panel["targets"]
        ]
        for panel in DASHBOARD["panels"]
    }


def courses(began: float, ended: float) -> list[dict[str, Any]]:
    """Return each panel with the values of its series in the time of the load."""
    span = {"start": began, "end": ended, "step": 5}
    return [
        {
            "title": panel["title"],
            "unit": panel["fieldConfig"]["defaults"]["unit"],
            "series": [
                {"legend": target["legendFormat"], **series}
                for target in panel["targets"]
                for series in query("query_range", query=plain(target["expr"]), **span)
            ],
        }
        for panel in DASHBOARD["panels"]
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
