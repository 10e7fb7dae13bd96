"""What the log says of refused requests."""

import pytest
from structlog.testing import capture_logs

from cog_adapt.server.middleware.audit import note_refusal
from cog_adapt.server.middleware.auth import AuthMiddleware
from cog_adapt.server.middleware.keys import Key, KeyRing
from tests.cog_adapt.server.asgi_client import ask
from tests.cog_adapt.server.middleware.applications import caller

SCOPE = {"method": "GET", "path": "/predictions/x", "query_string": b"s=1", "client": ("::1", 1)}


def refused(**more):
    with capture_logs() as lines:
        note_refusal(SCOPE | more, "no such thing")
    (line,) = lines
    return line


def test_a_line_says_who_what_and_why():
    key = Key("ci", frozenset({"predict"}), "d" * 64, owner="acme")
    line = refused(state={"key": key})
    assert line == {
        "event": "access refused",
        "log_level": "warning",
        "key": "ci",
        "owner": "acme",
        "client": "::/64",
        "method": "GET",
        "path": "/predictions/x",
        "why": "no such thing",
    }


def test_without_a_key_the_client_is_told_and_a_long_path_is_cut():
    line = refused(path="/" + "x" * 5000)
    assert (line["key"], line["owner"], len(line["path"])) == (None, None, 200)


@pytest.mark.parametrize(
    ("headers", "path", "why"),
    [
        ({}, "/predictions", "no key"),
        ({"X-Api-Key": "ca_wrong"}, "/predictions", "unknown or expired key"),
        ("predict", "/trainings", "lacks the scope train"),
    ],
)
def test_each_refused_key_is_a_line_without_the_key(key_file, made, headers, path, why):
    key = made["predict"][0]
    sent = {"X-Api-Key": key} if headers == "predict" else headers
    with capture_logs() as lines:
        answer = ask(AuthMiddleware(caller, KeyRing(key_file)), "POST", path, sent)
    assert answer.status in (401, 403)
    (line,) = lines
    assert (line["event"], line["why"], line["path"]) == ("access refused", why, path)
    assert "ca_wrong" not in str(line)
    assert key not in str(line)
