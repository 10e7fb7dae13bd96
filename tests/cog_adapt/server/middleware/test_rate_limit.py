import time

import pytest
from starlette.responses import PlainTextResponse

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.middleware.rate_limit import (
    RateLimitMiddleware,
    Windows,
    caller_of,
    read_rates,
)
from tests.cog_adapt.server.asgi_client import ask

app = PlainTextResponse("in")


def test_calls_beyond_the_rate_are_429_and_told_when_to_come_back():
    limited = RateLimitMiddleware(app, read_rates("2/minute"))
    assert [ask(limited, "POST", "/predictions").status for _ in range(2)] == [200, 200]
    answer = ask(limited, "PUT", "/predictions/x")
    assert answer.status == 429
    assert answer.headers["retry-after"] == "60"
    assert answer.error == "Too many requests: 2 per 1 minute are allowed. Try again in 60 s."


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/healthz"),
        ("HEAD", "/"),
        ("GET", "/predictions"),
        ("POST", "/predictions/x/cancel"),
    ],
)
def test_looking_and_cancelling_are_never_limited(method, path):
    limited = RateLimitMiddleware(app, read_rates("1/day"))
    assert ask(limited, "POST", "/predictions").status == 200
    assert [ask(limited, method, path).status for _ in range(3)] == [200] * 3
    assert ask(limited, "POST", "/predictions").status == 429


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/predictions/cancel"),
        ("POST", "/predictions/cancel"),
        ("PUT", "/trainings/a/cancel"),
        ("POST", "/own/route/a/cancel"),
    ],
)
def test_only_a_cancel_passes_for_one(method, path):
    limited = RateLimitMiddleware(app, read_rates("1/day"))
    assert [ask(limited, method, path).status for _ in range(2)] == [200, 429]


def test_each_address_has_a_rate_of_its_own():
    limited = RateLimitMiddleware(app, read_rates("1/minute"))
    clients = [("192.0.2.1", 1), ("192.0.2.2", 1), ("192.0.2.1", 2)]
    assert [ask(limited, "POST", client=c).status for c in clients] == [200, 200, 429]


@pytest.mark.parametrize(
    ("scope", "caller"),
    [
        ({"client": ("192.0.2.1", 7)}, "192.0.2.1"),
        ({"client": ("2001:db8::1:2:3:4", 7)}, "2001:db8::/64"),
        ({"client": ("fe80::1%eth0", 7)}, "fe80::/64"),
        ({"client": ("spoofed:by:a:proxy", 7)}, "spoofed:by:a:proxy"),
        ({"client": None}, "unknown"),
        ({"client": ("192.0.2.1", 7), "state": {"caller": "ci"}}, "ci"),
    ],
)
def test_who_a_caller_is(scope, caller):
    assert caller_of(scope) == caller


def test_the_window_moves():
    windows = Windows(read_rates("2/minute"))
    assert [windows.enter("a", now) for now in (0.0, 50.0, 59.0, 60.0, 61.0)] == [0, 0, 1, 0, 49]


def test_a_refused_call_does_not_count():
    windows = Windows(read_rates("1/minute"))
    assert [windows.enter("a", now) for now in (0.0, 59.0, 60.0)] == [0, 1, 0]


def test_all_of_several_rates_hold():
    windows = Windows(read_rates("2/second; 3/minute"))
    waits = [windows.enter("a", now) for now in (0.0, 0.5, 0.75, 1.0, 2.0)]
    assert waits == [0, 0, 0.25, 0, 58]


def test_callers_are_forgotten_when_their_windows_are_empty():
    windows = Windows(read_rates("5/second; 9/minute"))
    for n in range(10):
        windows.enter(f"192.0.2.{n}", float(n))
    windows.enter("192.0.2.0", 20.0)
    windows.enter("late", 64.5)
    assert len(windows) == 7  # 5 to 9, late, and 0, which has called since
    windows.enter("late", 80.5)
    assert len(windows) == 1


@pytest.mark.parametrize(
    ("setting", "rates_and_texts"),
    [
        ("7/second", [(7, 1, "7 per 1 second")]),
        ("10 per minute", [(10, 60, "10 per 1 minute")]),
        ("3/5 Hours", [(3, 18_000, "3 per 5 hour")]),
        (
            " 1/day;2/month,3 / year|4/2days ",
            [
                (1, 86_400, "1 per 1 day"),
                (2, 2_592_000, "2 per 1 month"),
                (3, 31_104_000, "3 per 1 year"),
                (4, 172_800, "4 per 2 day"),
            ],
        ),
    ],
)
def test_rates_are_read_as_operators_write_them(setting, rates_and_texts):
    found = [(rate.amount, rate.seconds, rate.text) for rate in read_rates(setting)]
    assert found == rates_and_texts


@pytest.mark.parametrize(
    "setting",
    [
        "5/0minutes",
        "1/second 2/day",
        "fast",
        "",
        "100",
        "100/fortnight",
        "0/minute",
        "-1/minute",
        "1000000/day",
        "5/day;",
    ],
)
def test_a_malformed_rate_is_refused_at_start(setting):
    with pytest.raises(ConfigError, match="RATE_LIMIT is") as caught:
        read_rates(setting)
    assert repr(setting) in str(caught.value)
    assert "100/minute" in str(caught.value)


def test_a_changed_clock_of_the_day_changes_nothing(monkeypatch):
    limited = RateLimitMiddleware(app, read_rates("1/minute"))
    assert ask(limited, "POST").status == 200
    monkeypatch.setattr(time, "time", lambda: 1e12)
    assert ask(limited, "POST").status == 429
