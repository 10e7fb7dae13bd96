"""The kinds of work that one owner gives a server, each again and again, to time another owner.

Every request is new, so that no answer is cached.
"""

import base64
import http.client
import io
import json
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

_TICKETS = Path(__file__).parents[2] / "examples" / "tickets.jsonl"
_PATIENCE, _SUCCESS = 120.0, 200
_MEMBERS, _ROWS, _TEXTS = 9_000, 10_000, 3_000
_LONG_TEXT = "words of a long text that fill all that the encoder reads " * 12
_REFUSING = "http://127.0.0.1:9/hook"  # an address that the guard refuses
_CLOSED = "https://192.0.2.1/hook"  # no host has this address: see RFC 5737


Status = int
Round = Callable[["Caller", int], Status]
"""Sends one request of one kind of work; the number makes it new. Returns the answer's status."""


class Caller:
    """Sends requests to a server for one owner, over one connection.

    Args:
        address: host and port.
        key: of the owner.
        adapters: of the owner, by method, which its callers share: paths and files.
    """

    def __init__(
        self, address: str, key: str, adapters: dict[str, tuple[str, bytes]] | None = None
    ) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=_PATIENCE)
        self._key = key
        self._adapters = {} if adapters is None else adapters

    def adapter(self, method: str) -> tuple[str, bytes]:
        """Return the path and the file of an adapter of the owner's own, made at the first call.

        Its seed is new, so that it is no earlier run's adapter.
        """
        if method not in self._adapters:
            inputs = {"text": "w", "examples": _tickets(), "method": method, "steps": 1}
            body = {"input": inputs | {"seed": int(time.monotonic() * 1000)}}
            status, answer = self.ask("POST", "/predictions", json.dumps(body).encode())
            if status != _SUCCESS:
                raise RuntimeError(f"the adapter was not made: status {status}")
            path = f"/adapters/{json.loads(answer)['output']['adapter']}/download"
            self._adapters[method] = path, self.ask("GET", path)[1]
        return self._adapters[method]

    def ask(
        self, method: str, path: str, body: bytes | memoryview | None = None, **headers: str
    ) -> tuple[Status, bytes]:
        """Return the status and the body of the answer; 0 if the connection ended instead."""
        own = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            self._connection.request(method, path, body, own | more)
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return 0, b""

    def predict(self, inputs: dict[str, Any], **headers: str) -> Status:
        """Run a prediction."""
        body = json.dumps({"input": inputs}).encode()
        return self.ask("POST", "/predictions", body, **headers)[0]

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def _tickets() -> list[dict[str, str]]:
    return [json.loads(line) for line in _TICKETS.read_text().splitlines()]


def _adapting(method: str, text: str = "") -> Round:
    """Return a round of adaptation to 48 tickets, each with more text."""

    def ask(caller: Caller, number: int) -> Status:
        examples = [row | {"text": f"{number} {row['text']} {text}"} for row in _tickets()]
        return caller.predict({"text": "w", "examples": examples, "method": method, "seed": number})

    return ask


def _zip_members(caller: Caller, number: int) -> Status:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for member in range(_MEMBERS):
            archive.writestr(f"label{member % 7}/{number}-{member}.png", b"%d" % member * 8)
    return caller.predict({"text": "w", "examples_file": _data_uri(file.getvalue())})


def _csv_rows(caller: Caller, number: int) -> Status:
    rows = (f"ticket {number} of {row},label {row % 7}" for row in range(_ROWS))
    content = "\n".join(["text,label", *rows]).encode()
    inputs = {"text": "w", "examples_file": _data_uri(content), "budget_seconds": 2.0}
    return caller.predict(inputs)


def _many_texts(caller: Caller, number: int) -> Status:
    texts = [f"{number} {row} words of a text" for row in range(_TEXTS)]
    return caller.predict({"texts": texts, "labels": ["one", "two"]})


def _long_texts(caller: Caller, number: int) -> Status:
    texts = [f"{number} {row} {_LONG_TEXT}" for row in range(64)]
    return caller.predict({"texts": texts, "labels": ["one", "two"]})


def _many_labels(caller: Caller, number: int) -> Status:
    labels = [f"label {number} {row} {_LONG_TEXT}"[:200] for row in range(1_000)]
    return caller.predict({"text": "w", "labels": labels})


def _refused_text(caller: Caller, number: int) -> Status:
    return caller.predict({"text": f"{number} word " * 400_000, "labels": ["one", "two"]})


def _deterministic(caller: Caller, number: int) -> Status:
    texts = [f"{number} {row} {_LONG_TEXT}" for row in range(32)]
    return caller.predict({"texts": texts, "labels": ["one", "two"], "deterministic": True})


def _small(caller: Caller, number: int) -> Status:
    return caller.predict({"text": f"w {number}", "labels": ["one", "two"]})


def _canceled(caller: Caller, number: int) -> Status:
    path = f"/predictions/storm{number}"
    body = json.dumps({"input": {"text": "w", "labels": ["one", "two"]}}).encode()
    status, _ = caller.ask("PUT", path, body, Prefer="respond-async")
    caller.ask("POST", f"{path}/cancel")
    return status


def _refused_webhook(caller: Caller, number: int) -> Status:
    body = {"input": {"text": f"{number}", "labels": ["one", "two"]}, "webhook": _CLOSED}
    return caller.ask("POST", "/predictions", json.dumps(body).encode(), Prefer="respond-async")[0]


def _lists(caller: Caller, number: int) -> Status:
    caller.ask("GET", "/adapters?limit=100")
    return caller.ask("GET", "/predictions?limit=100")[0]


def _uploads(method: str) -> Round:
    """Return an upload of an adapter by a method: `head` gives 10 kB, `all` 91 MB."""

    def ask(caller: Caller, number: int) -> Status:
        typed = {"Content_Type": "application/octet-stream"}
        return caller.ask("POST", "/adapters", caller.adapter(method)[1], **typed)[0]

    return ask


def _downloads(method: str) -> Round:
    def ask(caller: Caller, number: int) -> Status:
        return caller.ask("GET", caller.adapter(method)[0])[0]

    return ask


def _data_uri(content: bytes) -> str:
    return f"data:application/octet-stream;base64,{base64.b64encode(content).decode()}"


KINDS: dict[str, Round] = {
    "auto": _adapting("auto"),
    "auto, long texts": _adapting("auto", _LONG_TEXT),
    "LoRA": _adapting("lora"),
    "LoRA, long texts": _adapting("lora", _LONG_TEXT),
    "all parameters": _adapting("all"),
    f"a ZIP of {_MEMBERS:,} members": _zip_members,
    f"a CSV of {_ROWS:,} rows": _csv_rows,
    f"{_TEXTS:,} texts": _many_texts,
    "64 long texts": _long_texts,
    "1,000 labels": _many_labels,
    "a text that is too long": _refused_text,
    "deterministic": _deterministic,
    "small requests": _small,
    "accepted and canceled": _canceled,
    "refused webhooks": _refused_webhook,
    "lists": _lists,
    "uploads": _uploads("head"),
    "downloads": _downloads("head"),
    "uploads of 91 MB": _uploads("all"),
    "downloads of 91 MB": _downloads("all"),
}

PREPARED: dict[str, Callable[[Caller], object]] = {
    kind: partial(Caller.adapter, method="all" if "91 MB" in kind else "head")
    for kind in KINDS
    if "loads" in kind
}
"""What a caller does before the time of a kind counts."""
