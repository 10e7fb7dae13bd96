"""Bounds a caller's rate of work: a moving window for each of the rates."""

import ipaddress
import re
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import ceil

from starlette.types import ASGIApp, Receive, Scope, Send

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.middleware.peer_calls import is_from_peer
from cog_adapt.server.middleware.responses import AsgiResponse

_MAX_AMOUNT = 100_000  # a time is stored for each request in the window
_MAX_CALLERS = 100_000
_READ_ONLY = frozenset({"GET", "HEAD", "OPTIONS"})
_CANCEL = re.compile(r"/(predictions|trainings)/[^/]+/cancel")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "month": 2_592_000}
_SECONDS["year"] = 12 * _SECONDS["month"]
_RATE = re.compile(
    rf"\s*([0-9]+)\s*(?:/|per)\s*([0-9]*)\s*({'|'.join(_SECONDS)})s?\s*", re.IGNORECASE
)


@dataclass(frozen=True)
class Rate:
    """A number of calls in a window of seconds.

    Attributes:
        amount: the number of calls.
        seconds: the length of the window.
        text: the rate in words.
    """

    amount: int
    seconds: int
    text: str


def read_rates(setting: str) -> tuple[Rate, ...]:
    """Return the rates of a setting such as `10/second; 100 per 5 minutes`.

    Raises:
        ConfigError: it is malformed, or a rate is out of bounds.
    """
    return tuple(_read_rate(text, setting) for text in re.split("[;,|]", setting))


def _read_rate(text: str, setting: str) -> Rate:
    match = _RATE.fullmatch(text)
    if match is None:
        raise _wrong(setting, f"{text!r} is no rate")
    amount, multiple, unit = int(match[1]), int(match[2] or 1), match[3].lower()
    if not 1 <= amount <= _MAX_AMOUNT:
        raise _wrong(setting, f"{amount} is not from 1 to {_MAX_AMOUNT}")
    if not multiple:
        raise _wrong(setting, f"{text!r} has a window of no time")
    return Rate(amount, multiple * _SECONDS[unit], f"{amount} per {multiple} {unit}")


def _wrong(setting: str, why: str) -> ConfigError:
    remedy = "Write for example 100/minute, or 10/second;100/minute."
    return ConfigError(f"RATE_LIMIT is {setting!r}: {why}. {remedy}")


class Windows:
    """The times of each caller's last calls.

    Args:
        rates: the limits.

    Attributes:
        longest: the seconds for which a call counts.
    """

    def __init__(self, rates: Sequence[Rate]) -> None:
        self._rates = [(rate.amount, rate.seconds) for rate in rates]
        self._most = max(amount for amount, _ in self._rates)
        self.longest = max(seconds for _, seconds in self._rates)
        self._calls: OrderedDict[str, deque[float]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of remembered callers."""
        return len(self._calls)

    def enter(self, caller: str, now: float) -> float:
        """Count a call and return 0, or return the seconds until it would be admitted."""
        calls = self._calls.get(caller)
        if calls is None:
            calls = self._calls[caller] = deque(maxlen=self._most)
        wait = max(
            calls[-amount] + seconds - now if len(calls) >= amount else 0.0
            for amount, seconds in self._rates
        )
        if wait > 0:
            return wait
        calls.append(now)
        self._calls.move_to_end(caller)
        self._forget(now)
        return 0.0

    @asynccontextmanager
    async def exchanging(self) -> AsyncIterator[None]:
        """Exchange with other servers as long as the block runs; there are none."""
        yield

    def add(self, caller: str, calls: int, at: float) -> None:
        """Count calls that were admitted elsewhere, at a time that has passed."""
        times = sorted([*self._calls.get(caller, ()), *[at] * min(calls, self._most)])
        self._calls[caller] = deque(times, maxlen=self._most)
        self._calls.move_to_end(caller)

    def _forget(self, now: float) -> None:
        oldest = next(iter(self._calls.values()))
        while oldest[-1] + self.longest <= now or len(self._calls) > _MAX_CALLERS:
            self._calls.popitem(last=False)
            oldest = next(iter(self._calls.values()))


class RateLimitMiddleware:
    """Answers 429 to a caller that starts or changes things too often; reads are not limited.

    Args:
        app: the application.
        rates: the limits.
        windows: of the calls; None: of this server's alone.
    """

    def __init__(self, app: ASGIApp, rates: Sequence[Rate], windows: Windows | None = None) -> None:
        self._app = app
        self._windows = Windows(rates) if windows is None else windows
        self._text = "; ".join(rate.text for rate in rates)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection."""
        if scope["type"] == "http" and _is_counted(scope) and not is_from_peer(scope):
            wait = self._windows.enter(caller_of(scope), time.monotonic())
            if wait:
                await self._refuse(ceil(wait), send)
                return
        if scope["type"] == "lifespan":
            async with self._windows.exchanging():
                await self._app(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _refuse(self, seconds: int, send: Send) -> None:
        error = f"Too many requests: {self._text} are allowed. Try again in {seconds} s."
        await AsgiResponse.in_json(429, error, ((b"retry-after", b"%d" % seconds),)).send(send)


def _is_counted(scope: Scope) -> bool:
    # a cancel lowers the load; a refused cancel would keep the load up
    is_cancel = scope["method"] == "POST" and _CANCEL.fullmatch(scope["path"]) is not None
    return scope["method"] not in _READ_ONLY and not is_cancel


def caller_of(scope: Scope) -> str:
    """Return the caller for limits: the key's owner, else the client's address or IPv6 network."""
    owner: str | None = scope.get("state", {}).get("caller")
    return client_of(scope) if owner is None else owner


def client_of(scope: Scope) -> str:
    """Return a request's origin: the client's address, or IPv6 network."""
    address: str = scope["client"][0] if scope.get("client") else "unknown"
    if ":" not in address:
        return address
    try:
        # one subscriber has a whole /64, so all of its addresses are one caller
        return str(ipaddress.IPv6Network((address, 64), strict=False))
    except ValueError:
        return address
