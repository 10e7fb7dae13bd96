"""What a list shows of a webhook's URL."""

import pytest

from cog_adapt.server.webhooks.shown_urls import shown_error, shown_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/hook", "https://example.com/hook"),
        ("https://user:pass@example.com:8443/h", "https://example.com:8443/h"),
        ("https://a@b@example.com/", "https://example.com/"),
        ("https://h/p?token=s3cret&n=1&&flag", "https://h/p?token=***&n=***&***"),
        ("https://h/p?k=a=b", "https://h/p?k=***"),
        ("https://h/p#s3cret", "https://h/p"),
        ("https://u:p@[::1]:80/x?y=z", "https://[::1]:80/x?y=***"),
        ("https://u:s3cret@[bad/", "***"),
        ("", ""),
    ],
)
def test_user_password_fragment_and_values_are_left_out(url, shown):
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("no answer within 1 s from https://u:s3cret@h/?k=s3cret", "https://u:s3cret@h/?k=s3cret"),
        ('"https://u:s3cret\'x@h/" is not a URL', "https://u:s3cret'x@h/"),
        ("redirected to https://other/?k=s3cret", "https://h/"),
        ("'https://h/\\n?s3cret' is not a URL", "https://h/\n?s3cret"),
    ],
)
def test_an_error_tells_no_more(text, url):
    assert "s3cret" not in shown_error(text, url)
    assert "h" in shown_error(text, url)


def test_an_error_without_a_url_stays():
    assert shown_error("no connection to 'h'", "https://h/") == "no connection to 'h'"
