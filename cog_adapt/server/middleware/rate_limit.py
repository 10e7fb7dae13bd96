"""How often a caller may ask for work: a moving window for each of the rates.

The notation is that of `limits`. Its stores are not used: the one for threads starts a thread at
most calls (0.4 ms) and never forgets an address, the one for asyncio hops to a thread for each
address it knows.
"""

import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from math import ceil

from limits import RateLimitItem, parse_many
from starlette.types import ASGIApp, Receive, Scope, Send

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.middleware.responses import AsgiResponse

_MAX_AMOUNT = 100_000  # a time is kept for each request in the window
_MAX_CALLERS = 100_000
_READ_ONLY = frozenset({"GET", "HEAD", "OPTIONS"})


def read_rates(setting: str) -> tuple[RateLimitItem, ...]:
    """The rates of a setting such as `10/second; 100/minute`.

    Raises:
        ConfigError: it is malformed, or a rate is out of bounds.
    """
    remedy = "Write for example 100/minute, or 10/second;100/minute."
    try:
        rates = tuple(parse_many(setting))
    except ValueError as error:
        raise ConfigError(f"RATE_LIMIT is {setting!r}: {error}. {remedy}") from error
    for rate in rates:
        if not 1 <= rate.amount <= _MAX_AMOUNT:
            raise ConfigError(
                f"RATE_LIMIT is {setting!r}: {rate.amount} is not from 1 to {_MAX_AMOUNT}. {remedy}"
            )
    return rates


class Windows:
    """When each caller last asked."""

    def __init__(self, rates: Sequence[RateLimitItem]) -> None:
        self._rates = [(rate.amount, rate.get_expiry()) for rate in rates]
        self._most = max(amount for amount, _ in self._rates)
        self._longest = max(seconds for _, seconds in self._rates)
        self._calls: OrderedDict[str, deque[float]] = OrderedDict()

    def __len__(self) -> int:
        """The callers it remembers."""
        return len(self._calls)

    def enter(self, caller: str, now: float) -> float:
        """Count a call and return 0, or return the seconds until it would be let in."""
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

    def _forget(self, now: float) -> None:
        oldest = next(iter(self._calls.values()))
        while oldest[-1] + self._longest <= now or len(self._calls) > _MAX_CALLERS:
            self._calls.popitem(last=False)
            oldest = next(iter(self._calls.values()))


class RateLimitMiddleware:
    """Answers 429 to a caller that starts or changes things too often; reading is free."""

    def __init__(self, app: ASGIApp, rates: Sequence[RateLimitItem]) -> None:
        self._app = app
        self._windows = Windows(rates)
        self._text = "; ".join(str(rate) for rate in rates)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection."""
        if scope["type"] == "http" and _is_counted(scope):
            wait = self._windows.enter(caller_of(scope), time.monotonic())
            if wait:
                await self._refuse(ceil(wait), send)
                return
        await self._app(scope, receive, send)

    async def _refuse(self, seconds: int, send: Send) -> None:
        error = f"Too many requests: {self._text} are allowed. Try again in {seconds} s."
        await AsgiResponse.in_json(429, error, ((b"retry-after", b"%d" % seconds),)).send(send)


def _is_counted(scope: Scope) -> bool:
    # a cancel lowers the load; refused, it would keep the load up
    return scope["method"] not in _READ_ONLY and not scope["path"].endswith("/cancel")


def caller_of(scope: Scope) -> str:
    """Who asks, for logs and limits: the key's name, else the client's address or IPv6 network."""
    name: str | None = scope.get("state", {}).get("caller")
    if name is not None:
        return name
    address: str = scope["client"][0] if scope.get("client") else "unknown"
    if ":" not in address:
        return address
    try:
        # one subscriber has a whole /64, so its addresses are one caller
        return str(ipaddress.IPv6Network((address, 64), strict=False))
    except ValueError:
        return address
