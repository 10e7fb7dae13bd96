import pytest

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.webhooks import WebhookSigner


@pytest.mark.parametrize("secret", ["==", "whsec_a", "whsec_€uro", "whsec_AAAA whsec_a", "b64!"])
def test_a_secret_that_is_none_is_refused_and_not_told(secret):
    with pytest.raises(ConfigError, match="WEBHOOK_SECRET") as told:
        WebhookSigner("me", None, secret)
    assert secret not in str(told.value)


def test_a_token_that_fits_no_header_is_refused_and_not_told():
    with pytest.raises(ConfigError, match="WEBHOOK_AUTH_TOKEN") as told:
        WebhookSigner("me", "tok\nen")
    assert "tok\nen" not in str(told.value)
