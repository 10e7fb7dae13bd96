"""A client for one server, this project's or Cog's own, that can wait until it is ready."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2

from cog_adapt.server.errors import InputError, ServerError, UnavailableError

_PAUSE = 0.1  # seconds between health checks of this process's own server while it starts
_POLITE_PAUSE = 1.0  # seconds between health checks of another server
_SECONDS = 30.0  # limit for a response that does not wait for a prediction or training
_NO_READ_LIMIT = httpx2.Timeout(_SECONDS, read=None)
_READY = ("READY", "BUSY")
_BROKEN = ("SETUP_FAILED", "DEFUNCT", "UNHEALTHY", "UNKNOWN")


class Client:
    """A client of one server.

    Args:
        url: the server's root.
        key: an API key.
        check_process: raises if the server, which was started for this client, has ended. Until
            that server listens, it may be unreachable.
    """

    def __init__(
        self, url: str, key: str | None = None, check_process: Callable[[], None] | None = None
    ) -> None:
        self.url = url.rstrip("/")
        self.key = key
        self._check_process = check_process
        self._pause = _PAUSE if check_process else _POLITE_PAUSE
        self._http = httpx2.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=_SECONDS,
            trust_env=check_process is None,  # this process's own server is behind no proxy
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> httpx2.Response:
        """Send one request, and read the response whole.

        Raises:
            UnavailableError: the server cannot be reached.
        """
        with self._errors():
            return self._http.request(method, self.url + path, json=body, headers=headers)

    def send_file(self, path: str, file: Path) -> httpx2.Response:
        """POST a file, however large; read the response whole.

        Raises:
            InputError: the file cannot be read.
            UnavailableError: the server cannot be reached.
        """
        try:
            content = file.open("rb")
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}.") from error
        with content, self._errors():
            return self._http.post(self.url + path, content=content, timeout=_NO_READ_LIMIT)

    @contextlib.contextmanager
    def stream(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Iterator[httpx2.Response]:
        """Send one request, and wait for the response without a time limit.

        Raises:
            UnavailableError: the server cannot be reached, or the connection broke off.
        """
        url = self.url + path
        with (
            self._errors(),
            self._http.stream(
                method, url, json=body, headers=headers, timeout=_NO_READ_LIMIT
            ) as response,
        ):
            yield response

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise InputError(f"--url is {self.url}: {error}") from error
        except httpx2.TransportError as error:
            raise UnavailableError(f"{self.url} cannot be reached: {error}") from error

    def wait_until_ready(self, seconds: float) -> None:
        """Wait until the server's health is READY or BUSY.

        Raises:
            UnavailableError: the health is another final state, or setup takes longer.
        """
        deadline = time.monotonic() + seconds
        while not self._is_ready(deadline):
            time.sleep(self._pause)

    def document(self) -> dict[str, Any]:
        """Return the OpenAPI document, which servers have once they are ready."""
        return content(self.request("GET", "/openapi.json"))

    def _is_ready(self, deadline: float) -> bool:
        response = self._ask("/health-check")
        health = {} if response is None else content(response)
        status = health.get("status")
        logs = str((health.get("setup") or {}).get("logs") or "").rstrip()
        if status in _BROKEN:
            reason = str(health.get("user_healthcheck_error") or "")
            raise UnavailableError(_paragraphs(f"the server's health is {status}.", reason, logs))
        if status not in _READY and time.monotonic() > deadline:
            late = "setup takes longer than --setup-timeout; allow more seconds."
            raise UnavailableError(_paragraphs(late, logs))
        return status in _READY

    def _ask(self, path: str) -> httpx2.Response | None:
        """Send a GET; return None while a server that is being started does not listen yet."""
        if self._check_process is None:
            return self.request("GET", path)
        self._check_process()
        with contextlib.suppress(UnavailableError):
            return self.request("GET", path)
        return None


def _paragraphs(*parts: str) -> str:
    return "\n".join(filter(None, parts))


def content(response: httpx2.Response) -> dict[str, Any]:
    """Return the JSON object of a response.

    Raises:
        ServerError: the response is no success, or holds no JSON object.
    """
    answer = _json(response)
    if response.status_code not in (200, 202) or not isinstance(answer, dict):
        raise refusal(response)
    return answer


def refusal(response: httpx2.Response) -> ServerError:
    """Make the error that explains a response that is no success."""
    answer, code = _json(response), response.status_code
    detail = answer.get("detail", answer.get("error")) if isinstance(answer, dict) else None
    if code == 422 and isinstance(detail, list):
        return InputError("\n".join(_field(one) for one in detail))
    message = detail if isinstance(detail, str) else response.text[:500] or response.reason_phrase
    if code == 422:
        return InputError(message)
    remedies = {
        401: " Give a key with --key.",
        403: " Give a key of that scope with --key.",
        429: f" Try again in {response.headers.get('retry-after', 'some')} s.",
    }
    where = f"{response.request.method} {response.request.url}"
    return UnavailableError(f"{where} was answered {code}: {message}{remedies.get(code, '')}")


def _json(response: httpx2.Response) -> Any:  # noqa: ANN401 - what a server answers
    try:
        return response.json()
    except ValueError:
        return None


def _field(detail: dict[str, Any]) -> str:
    place = [str(part) for part in detail.get("loc", ())]
    for prefix in ("body", "input"):
        if place[:1] == [prefix]:
            place.pop(0)
    return f"{'.'.join(place) or 'input'}: {detail.get('msg', 'is not allowed')}"
