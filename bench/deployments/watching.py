"""Prometheus with the files of `deploy/monitoring/`, a load, and what the panels answer."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[2]
OPERATORS = ROOT / os.environ.get("OPERATORS_FOLDER", ".venv-operators")
MONITORING = ROOT / "deploy" / "monitoring"
DASHBOARD = json.loads((MONITORING / "grafana" / "dashboard.json").read_text())
LIMITS = {"COG_MAX_CONCURRENCY": "4", "MAX_QUEUE": "2"}
"""Limits of a server that a load reaches, so that it refuses some requests."""

CROWD = 12
"""Requests at once that are more than one server takes with these limits."""

_ANSWER_SECONDS = 300.0


def example_inputs() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the template's inputs of a plain request, and of one with examples."""
    plain, taught, *_ = json.loads((ROOT / "examples" / "requests.json").read_text())
    return plain["input"], taught["input"]


class Receiver(BaseHTTPRequestHandler):
    """Takes webhooks of Alertmanager and of servers."""

    alerts: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        """Keep alerts, and drop all else."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/alerts":
            self.alerts.extend(body["alerts"])
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def receiving(host: str, port: int = 0) -> Iterator[str]:
    """Receive webhooks at an address; yield its URL."""
    server = ThreadingHTTPServer((host, port), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def of_debian(name: str) -> Path:
    """Return the place of a program of Debian's that `.ci/operators` fetches."""
    return OPERATORS / "debian" / "usr" / "bin" / name


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


def until(get: Callable[[], Any], seconds: float, what: str) -> Any:  # noqa: ANN401 - of `get`
    """Return what is true at last; end this process with the reason if nothing is."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        found = None
        with suppress(OSError):
            found = get()
        if found:
            return found
        time.sleep(0.5)
    raise SystemExit(f"after {seconds} s: {what}")


def ask(url: str, body: object | None = None) -> Any:  # noqa: ANN401 - whatever is answered
    """Return the JSON of an answer.

    Raises:
        OSError: there is none, or it is a refusal.
    """
    content = None if body is None else json.dumps(body).encode()
    request = Request(url, content, {"Content-Type": "application/json"})
    with urlopen(request, timeout=_ANSWER_SECONDS) as answer:
        return json.load(answer)


def _ask_perhaps(url: str, body: object) -> None:
    """Send a request that may be refused."""
    with suppress(OSError):
        ask(url, body)


def load(url: str, receiver: str, *, seconds: float, crowd: int = CROWD) -> None:
    """Send predictions, with examples and without, with webhooks, and more than are taken.

    Returns once all are answered.

    Args:
        url: of the server, or of the proxy.
        receiver: URL of a receiver of webhooks.
        seconds: for which requests are begun.
        crowd: requests at once.
    """
    path, ends, number = f"{url}/predictions", time.monotonic() + seconds, 0
    plain, with_examples = example_inputs()
    body = {"input": plain, "webhook": f"{receiver}/done"}
    adaptations = []
    while time.monotonic() < ends:
        number += 1
        ask(path, body)
        if number % 20 == 1:
            taught = with_examples | {"seed": number, "method": "auto"}
            adaptations += _sent(path, {"input": taught}, 1)
        for each in _sent(path, body, crowd):
            each.join()
        time.sleep(0.3)
    for each in adaptations:
        each.join()


def _sent(path: str, body: object, count: int) -> list[threading.Thread]:
    """Send a request so many times at once; return the threads that wait for the answers."""
    threads = [threading.Thread(target=_ask_perhaps, args=[path, body]) for _ in range(count)]
    for each in threads:
        each.start()
    return threads


def plain(expression: str) -> str:
    """Return an expression of the dashboard as Grafana asks it."""
    return expression.replace("$__rate_interval", "1m").replace("$instance", ".*")


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus, at its URL."""

    url: str

    def query(self, path: str, **asked: object) -> list[Any]:
        """Return the series of an answer."""
        answer = ask(f"{self.url}/api/v1/{path}?{urlencode(asked)}")
        found: list[Any] = answer["data"]["result"]
        return found

    def value(self, expression: str) -> int:
        """Return the number that an expression has, whole; 0 without an answer."""
        found = self.query("query", query=expression)
        return round(float(found[0]["value"][1])) if found else 0

    def until_scraped(self) -> None:
        """Wait until every server was scraped after this moment, whose time is the clock's."""
        now = time.time()
        last = 'min(timestamp(up{job="cog-adapt"}))'

        def is_later() -> bool:
            found = self.query("query", query=last)
            return bool(found) and float(found[0]["value"][1]) > now

        until(is_later, 60, "Prometheus scrapes nothing")

    def answered(self) -> dict[str, list[int]]:
        """Return how many series each expression of each panel answers."""
        return {
            panel["title"]: [
                len(self.query("query", query=plain(target["expr"]))) for target in panel["targets"]
            ]
            for panel in DASHBOARD["panels"]
        }

    def courses(self, began: float, ended: float) -> list[dict[str, Any]]:
        """Return each panel with the values of its series between two times of the clock."""
        span = {"start": began, "end": ended, "step": 5}
        return [
            {
                "title": panel["title"],
                "unit": panel["fieldConfig"]["defaults"]["unit"],
                "series": [
                    {"legend": target["legendFormat"], **series}
                    for target in panel["targets"]
                    for series in self.query("query_range", query=plain(target["expr"]), **span)
                ],
            }
            for panel in DASHBOARD["panels"]
        ]
