"""The monitoring of deploy/ with real programs, in a network namespace of its own.

    unshare --net --mount python -m tests.cog_adapt.deploy.stack FOLDER

The files of `deploy/monitoring/` are used unchanged: their host names lead to this host. A server
takes a load, each expression of the dashboard is asked, then the server is killed, and the alert
has to arrive at the webhook. FOLDER gets `found.json`, and `panels.json` to draw the panels from.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.deployments.watching import (
    LIMITS,
    MONITORING,
    Prometheus,
    Receiver,
    ask,
    load,
    receiving,
    running,
    until,
)
from tests.cog_adapt.deploy.operators import program

SERVER, PROMETHEUS = "http://server:5000", Prometheus("http://localhost:9090")
NAMES = "127.0.0.1 localhost server alertmanager receiver prometheus\n"
LOAD_SECONDS, ALERT_SECONDS, START_SECONDS = 75, 240, 120


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


def main(folder: Path) -> None:
    """Run the stack, and write what was found."""
    prepare(folder)
    prometheus = [program("prometheus"), f"--config.file={MONITORING / 'prometheus.yml'}"]
    manager = [program("prometheus-alertmanager"), f"--storage.path={folder / 'manager'}"]
    manager += [f"--config.file={MONITORING / 'alertmanager.yml'}", "--cluster.listen-address="]
    server = [sys.executable, "-m", "server", "--host", "127.0.0.1"]
    data = {"DATA_DIR": str(folder / "records"), "WEIGHTS_DIR": str(folder / "weights")}
    found: dict[str, Any] = {}
    with (
        receiving("receiver", 8080) as receiver,
        running("prometheus", [*prometheus, f"--storage.tsdb.path={folder / 'series'}"], folder),
        running("alertmanager", manager, folder),
    ):
        with running("server", server, folder, EGRESS_ALLOW="receiver", **LIMITS, **data):
            until(lambda: ask(f"{SERVER}/readyz"), START_SECONDS, "the server is not ready")
            began = time.time()
            load(SERVER, receiver, seconds=LOAD_SECONDS)
            PROMETHEUS.until_scraped()
            found["panels"] = PROMETHEUS.answered()
            (folder / "panels.json").write_text(json.dumps(PROMETHEUS.courses(began, time.time())))
        found["alert"] = until(server_down, ALERT_SECONDS, "no alert arrived")
    (folder / "found.json").write_text(json.dumps(found))


def server_down() -> dict[str, Any] | None:
    """Return the alert that the server is down, once it has arrived."""
    return next((a for a in Receiver.alerts if a["labels"]["alertname"] == "CogServerDown"), None)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
