"""The steps of an operator, the same for each deployment."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bench.deployments.watching import (
    CROWD,
    MONITORING,
    Prometheus,
    ask,
    example_inputs,
    load,
    of_debian,
    receiving,
    running,
    until,
)
from bench.storm.servers import free_port, is_ready

SCRAPE_SECONDS, START_SECONDS = 5, 300
SETTINGS = {"EGRESS_ALLOW": "127.0.0.0/8, 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16"}
"""Settings of each server of a walk: receivers of webhooks are near."""

_EXACT = {"deterministic": True}
_TARGETS = '["server:5000"]'
_INTERVAL = "scrape_interval: 15s"


class Deployment(Protocol):
    """A way to run servers, by the documented commands."""

    count: int

    @property
    def url(self) -> str:
        """The address for clients."""

    @property
    def host(self) -> str:
        """The address at which servers reach this host."""

    def start(self) -> None:
        """Order the start; the walk waits until all servers are ready."""

    def targets(self) -> list[str]:
        """Return the addresses of the servers that are ready, for Prometheus."""

    def replace(self) -> None:
        """Replace every server by another, and keep what they have stored."""

    def stop(self) -> bool:
        """End all, and return whether all ended by themselves, without an error."""

    def remove(self) -> None:
        """Remove what is left, whatever has happened."""


@dataclass
class Walk:
    """One walk.

    Attributes:
        found: what is written about it.
        panels: of the dashboard, to draw.
    """

    deployment: Deployment
    folder: Path
    load_seconds: float
    found: dict[str, Any] = field(default_factory=dict)
    panels: list[dict[str, Any]] = field(default_factory=list)

    def go(self) -> None:
        """Take all steps."""
        self.found["date"] = time.strftime("%Y-%m-%d", time.gmtime())
        self.found["load of the machine"] = round(os.getloadavg()[0], 1)
        deployment = self.deployment
        try:
            self._time("seconds until ready", lambda: self._until_ready(deployment.start))
            self._time("seconds of the adaptation", self._adapt)
            self.found["the adapter answers the same"] = self._answers_the_same()
            with receiving(deployment.host) as receiver:
                self._watch(receiver)
            self._time("seconds to replace", lambda: self._until_ready(deployment.replace))
            self.found["the adapter answers the same afterwards"] = self._answers_the_same()
            self.found["the record is kept"] = self._is_kept()
            self._time("seconds to end", self._stop)
        finally:
            deployment.remove()

    def _time(self, name: str, act: Callable[[], None]) -> None:
        began = time.monotonic()
        act()
        self.found[name] = round(time.monotonic() - began, 1)

    def _until_ready(self, act: Callable[[], None]) -> None:
        act()
        until(self._is_ready, START_SECONDS, "not all servers are ready")

    def _is_ready(self) -> bool:
        return len(self.deployment.targets()) == self.deployment.count and is_ready(
            self.deployment.url
        )

    def _adapt(self) -> None:
        taught = example_inputs()[1] | _EXACT
        self._first = ask(f"{self.deployment.url}/predictions", {"input": taught})

    def _answers_the_same(self) -> bool:
        """Ask by the adapter, each server twice where they take turns."""
        output = self._first["output"]
        texts = example_inputs()[1]["texts"]
        asked = {"texts": texts, "adapter": output["adapter"], **_EXACT}
        answers = [
            ask(f"{self.deployment.url}/predictions", {"input": asked})["output"]["predictions"]
            for _ in range(2 * self.deployment.count)
        ]
        return answers == [output["predictions"]] * len(answers)

    def _is_kept(self) -> bool:
        with suppress(OSError):
            kept = ask(f"{self.deployment.url}/predictions/{self._first['id']}")
            return bool(kept["output"] == self._first["output"])
        return False

    def _watch(self, receiver: str) -> None:
        """Let Prometheus look while a load is on, and ask it for each panel."""
        deployment, address = self.deployment, f"127.0.0.1:{free_port()}"
        prometheus = Prometheus(f"http://{address}")
        with running(
            "prometheus", watcher(self.folder, address, deployment.targets()), self.folder
        ):
            prometheus.until_scraped()
            began = time.time()
            crowd = CROWD * deployment.count
            load(deployment.url, receiver, seconds=self.load_seconds, crowd=crowd)
            prometheus.until_scraped()
            self.found["panels"] = prometheus.answered()
            self.found["servers that Prometheus sees"] = prometheus.value(
                'sum(up{job="cog-adapt"})'
            )
            ended = "sum(cog_predictions_finished_total)"
            self.found["predictions that ended"] = prometheus.value(ended)
            self.panels = prometheus.courses(began, time.time())

    def _stop(self) -> None:
        self.found["ended without an error"] = self.deployment.stop()


def watcher(folder: Path, address: str, targets: list[str]) -> list[str]:
    """Write the configuration of `deploy/monitoring/` for targets; return Prometheus' command."""
    text = (MONITORING / "prometheus.yml").read_text()
    for old, new in ((_TARGETS, str(targets)), (_INTERVAL, f"scrape_interval: {SCRAPE_SECONDS}s")):
        if text.count(old) != 1:
            raise ValueError(f"prometheus.yml has {old!r} {text.count(old)} times; 1 is expected")
        text = text.replace(old, new)
    (folder / "prometheus.yml").write_text(text)
    (folder / "alerts.yml").write_text((MONITORING / "alerts.yml").read_text())
    return [
        str(of_debian("prometheus")),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'series'}",
        f"--web.listen-address={address}",
    ]
