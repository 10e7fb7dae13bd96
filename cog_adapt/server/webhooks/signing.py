"""Makes the headers of a webhook: its sender, and the signature."""

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime

from standardwebhooks.webhooks import EmptyWebhookSecretError, Webhook

from cog_adapt.server.errors import ConfigError


class WebhookSigner:
    """Makes headers as https://www.standardwebhooks.com specifies.

    Args:
        user_agent: the User-Agent header.
        auth_token: sent as a bearer token, as Cog does.
        secret: base64, with or without the prefix `whsec_`. Each of several secrets, separated by
            spaces, makes a signature, so that receivers can change from one to the next. Without a
            secret there is no signature.

    Raises:
        ConfigError: a secret is not base64, or the token does not fit in a header.
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
        """Return the headers of one attempt.

        Args:
            webhook_id: the same for each attempt.
            body: the bytes to sign.
            now: UTC.
            more: additional headers, such as `traceparent`; invalid values are left out.
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
        # `Webhook` itself skips characters that are not base64.
        base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        return Webhook(secret)
    except (binascii.Error, ValueError, EmptyWebhookSecretError) as error:
        raise ConfigError(
            f"WEBHOOK_SECRET: a secret of {len(secret)} characters is not base64 ({error}); "
            "write whsec_ and, for example, the output of `openssl rand -base64 32`"
        ) from error
