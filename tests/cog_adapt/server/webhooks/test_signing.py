import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import standardwebhooks

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.webhooks import WebhookSigner

OPERATIONS = Path(__file__).parents[4] / "docs" / "operations.md"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "b" * 32
BODY = '{"output": "ö"}'.encode()


def write(signer, more=None, now=None):
    return signer.write_headers("msg_1", BODY, now or datetime.now(UTC), more or {})


@pytest.mark.parametrize(
    "secret", ["==", "whsec_a", "whsec_€uro", "whsec_AAAA whsec_a", f"{SECRET[:-1]}!w"]
)
def test_a_secret_that_is_none_is_refused_and_not_told(secret):
    with pytest.raises(ConfigError, match="WEBHOOK_SECRET") as caught:
        WebhookSigner("me", None, secret)
    assert secret not in str(caught.value)


def test_a_token_that_fits_no_header_is_refused_and_not_told():
    with pytest.raises(ConfigError, match="WEBHOOK_AUTH_TOKEN") as caught:
        WebhookSigner("me", "tok\nen")
    assert "tok\nen" not in str(caught.value)


def test_a_secret_of_no_bytes_is_refused():
    with pytest.raises(ConfigError, match="WEBHOOK_SECRET: a secret of 6 characters"):
        WebhookSigner("me", None, "whsec_")


def test_without_secret_and_token_the_headers_name_sender_id_and_time():
    now = datetime(2026, 11, 21, 12, 0, 0, 900_000, UTC)
    assert write(WebhookSigner("coglet/1"), now=now) == {
        "content-type": "application/json",
        "user-agent": "coglet/1",
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp())),
    }


def test_each_secret_signs_so_that_receivers_can_change():
    headers = write(WebhookSigner("me", None, f"{SECRET} {OTHER}"))
    assert len(headers["webhook-signature"].split(" ")) == 2
    for secret in (SECRET, OTHER):
        standardwebhooks.Webhook(secret).verify(BODY.decode(), headers)


def test_further_headers_are_passed_on_unless_they_are_ours_or_fit_none():
    more = {
        "Traceparent": "00-1",
        "Webhook-Id": "theirs",
        "User-Agent": "theirs",
        "broken": "a\r\nb",
        "wide": "ö",
        "tab": "a\tb",
    }
    headers = write(WebhookSigner("me"), more)
    assert headers["traceparent"] == "00-1"
    assert (headers["webhook-id"], headers["user-agent"]) == ("msg_1", "me")
    assert not headers.keys() & {"broken", "wide", "tab"}


def test_the_documented_check_takes_our_signatures_and_no_other():
    (check,) = re.findall(r"```python\n(.*?)```", OPERATIONS.read_text(), re.DOTALL)
    scope: dict[str, Any] = {}
    exec(check, scope)
    is_ours, headers = scope["is_ours"], write(WebhookSigner("me", None, SECRET))
    assert is_ours(SECRET, headers, BODY)
    assert not is_ours(SECRET, headers, BODY + b" ")
    assert not is_ours("whsec_" + "A" * 44, headers, BODY)
    assert not is_ours(SECRET, headers | {"webhook-id": "x"}, BODY)
