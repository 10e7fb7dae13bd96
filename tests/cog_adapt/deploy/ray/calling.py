"""A client as `docs/deploy.md` advises: it names its runs, and asks again by the name."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx2

MOST_SECONDS = 300.0
_PAUSE = 0.1
_CUT = (500, 502, 503, 504)


@dataclass
class Called:
    """What became of one request.

    Attributes:
        status: the run's last.
        cuts: answers of the proxy's own, and connections that broke.
        seconds: until the final state was read.
        record: the run's last body.
    """

    status: str
    cuts: int
    seconds: float
    record: dict[str, Any]


class Caller:
    """Sends runs at once, each from a thread of its own."""

    def __init__(self, url: str, threads: int = 96) -> None:
        self._client = httpx2.Client(
            base_url=url, timeout=75, limits=httpx2.Limits(max_connections=128), trust_env=False
        )
        self._threads = ThreadPoolExecutor(threads)

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """One request, without another try."""
        return self._client.request(method, path, **more)

    def get(self, path: str) -> httpx2.Response:
        return self.ask("GET", path)

    def start(self, name: str, prefer: str = "respond-async", **values: Any) -> "Future[Called]":
        """PUT a run, which may begin again after a crash, and follow it to its end."""
        return self._threads.submit(self._call, name, prefer, values)

    def _call(self, name: str, prefer: str, values: dict[str, Any]) -> Called:
        began, cuts, body = time.monotonic(), 0, {"input": values, "retries": 5}
        found = self._body("PUT", name, json=body, headers={"Prefer": prefer})
        while (state := _final(found)) is None:
            cuts += found is None
            assert time.monotonic() < began + MOST_SECONDS, f"{name} has no end: {found}"
            time.sleep(_PAUSE)
            is_unknown = found is not None and found["status"] == "unknown"
            if is_unknown:  # the request was cut before a server had it
                found = self._body("PUT", name, json=body, headers={"Prefer": prefer})
            else:
                found = self._body("GET", name)
        return Called(state, cuts, time.monotonic() - began, found or {})

    def _body(self, method: str, name: str, **more: Any) -> dict[str, Any] | None:
        """The body of an answer; None if the proxy cut the request."""
        try:
            answer = self._client.request(method, f"/predictions/{name}", **more)
        except httpx2.TransportError:
            return None
        if answer.status_code in _CUT and "json" not in answer.headers.get("content-type", ""):
            return None
        if answer.status_code == 404:
            return {"status": "unknown"}
        assert answer.status_code in (200, 202), answer.text
        body: dict[str, Any] = answer.json()
        return body

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._client.close()


def _final(body: dict[str, Any] | None) -> str | None:
    status = body["status"] if body else None
    return status if status in ("succeeded", "failed", "canceled") else None
