"""The headers of a webhook: whom it is from, and the proof of that."""

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime

from standardwebhooks.webhooks import EmptyWebhookSecretError, Webhook

from cog_adapt.server.errors import ConfigError


class WebhookSigner:
    """Makes headers after https://www.standardwebhooks.com.

    Args:
        user_agent: named to receivers.
        auth_token: sent as a bearer token; Cog's way.
        secret: base64 with or without `whsec_` in front. Of several with a space between, each
            signs, so that receivers can change from one to the next. Without one there is no
            signature.

    Raises:
        ConfigError: a secret is not base64, or the token cannot stand in a header.
    """

    def __init__(
        self, user_agent: str, auth_token: str | None = None, secret: str | None = None
    ) -> None:
        self._fixed = {"content-type": "application/json", "user-agent": user_agent}
        if auth_token:
            if not _fits_header(auth_token):
                raise ConfigError("WEBHOOK_AUTH_TOKEN holds what no header may: write plain ASCII")
            self._fixed["authorization"] = f"Bearer {auth_token}"
        self._signers = [_read_secret(each) for each in (secret or "").split()]

    def write_headers(
        self, webhook_id: str, body: bytes, now: datetime, more: Mapping[str, str]
    ) -> dict[str, str]:
        """The headers of one attempt.

        Args:
            webhook_id: the same in each attempt.
            body: that is signed.
            now: UTC.
            more: passed through, such as `traceparent`; what cannot stand in a header is not.
        """
        passed = {name.lower(): value for name, value in more.items() if _fits_header(value)}
        stamps = {"webhook-id": webhook_id, "webhook-timestamp": str(int(now.timestamp()))}
        if self._signers:
            text = body.decode()
            signatures = [signer.sign(webhook_id, now, text) for signer in self._signers]
            stamps["webhook-signature"] = " ".join(signatures)
        return passed | self._fixed | stamps


def _fits_header(value: str) -> bool:
    return value.isascii() and value.isprintable()


def _read_secret(secret: str) -> Webhook:
    try:
        base64.b64decode(secret.removeprefix("whsec_"), validate=True)  # Webhook skips what is none
        return Webhook(secret)
    except (binascii.Error, ValueError, EmptyWebhookSecretError) as error:
        raise ConfigError(
            f"WEBHOOK_SECRET: a secret of {len(secret)} characters is not base64 ({error}); "
            "write whsec_ and, for example, the output of `openssl rand -base64 32`"
        ) from error
