"""What a client accepts is read from its headers, whatever is in them."""

import pytest

from cog_adapt.server.middleware.accepting import header_of, wants_page, weights

CHROME = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"


def asked(*accept):
    return {"headers": [(b"host", b"x"), *((b"accept", each.encode()) for each in accept)]}


@pytest.mark.parametrize(
    "accept", [(CHROME,), ("text/html",), ("TEXT/HTML; q=0.4",), ("*/*", "text/html;level=1")]
)
def test_a_browser_wants_the_page(accept):
    assert wants_page(asked(*accept))


@pytest.mark.parametrize(
    "accept",
    [
        *((), ("",), ("*/*",), ("text/*",), ("application/json",)),
        ("application/json, text/plain, */*",),  # axios
        ("application/json, text/html",),
        ("application/json;q=0.9", "text/html;q=0.8"),
        *(("text/html;q=0",), ("text/html;q=x",), ("text/html;q=",), ("text/html;q=nan",)),
        ("," * 60_000 + "text/html",),
    ],
)
def test_nobody_else_does(accept):
    assert not wants_page(asked(*accept))


def test_weights_are_by_name_and_one_where_none_is_said():
    assert weights("gzip, br;q=0.5 , identity; q=0;x=y") == {"gzip": 1, "br": 0.5, "identity": 0}


def test_a_header_that_comes_twice_is_one():
    headers = [(b"a", b"1"), (b"b", b"\xff"), (b"a", b"2"), (b"long", b"x" * 60_000)]
    assert (header_of(headers, b"a"), header_of(headers, b"b"), header_of(headers, b"c")) == (
        "1,2",
        "ÿ",
        "",
    )
    assert header_of(headers, b"long") == "x" * 1000
