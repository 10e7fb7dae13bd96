import asyncio
import contextlib
import gzip
import itertools
import re
import socket
import ssl
import threading
import zlib
from typing import Any

import pytest
import trustme
from werkzeug import Response

from cog_adapt.server.egress import DownloadError, Egress, EgressError, Transfer

MANY = 10**6


@pytest.fixture
def egress():
    return Egress(["127.0.0.0/8"])


@pytest.fixture
def names(monkeypatch):
    """Addresses of names, one list for each time that the name is asked for."""
    answers: dict[Any, Any]
    answers, real = {}, socket.getaddrinfo

    def resolve(host, port, *args, **kwargs):
        addresses = next(answers[host]) if host in answers else [host]
        return [found for each in addresses for found in real(each, port, *args, **kwargs)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return answers


def read_request(connection):
    """All of it: to close with something unread would break off the answer."""
    request = connection.recv(2**16)
    while not request.endswith(b"{}" if request.startswith(b"POST") else b"\r\n\r\n"):
        more = connection.recv(2**16)
        if not more:
            raise ConnectionError
        request += more
    return request


@contextlib.contextmanager
def raw_server(answer):
    """Answers each connection with some bytes, whatever was asked; yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        read_request(connection)
                        for piece in answer:
                            connection.sendall(piece)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    assert not thread.is_alive()


def post(egress, url, body=b"{}", headers=None, timeout=20):
    async def once():
        try:
            return await egress.post(url, body, headers or {}, timeout=timeout)
        finally:
            await egress.aclose()

    return asyncio.run(once())


def test_a_file_is_downloaded(egress, httpserver, tmp_path):
    httpserver.expect_request("/a", headers={"User-Agent": "me/1"}).respond_with_data(b"x" * 3000)
    url = httpserver.url_for("/a")
    egress.download(url, tmp_path / "a", most_bytes=3000, user_agent="me/1")
    assert (tmp_path / "a").read_bytes() == b"x" * 3000
    assert egress.read(url, most_bytes=3000, user_agent="me/1") == b"x" * 3000


def test_an_http_error_is_told_as_by_requests(egress, httpserver, tmp_path):
    url = httpserver.url_for("/none").replace("//", "//me:password@")
    httpserver.expect_request("/none").respond_with_data(status=404)
    expected = f"404 Client Error: NOT FOUND for url: {httpserver.url_for('/none')}"
    with pytest.raises(DownloadError, match=f"^{re.escape(expected)}$"):
        egress.download(url, tmp_path / "none", most_bytes=MANY)
    assert not (tmp_path / "none").exists()
    httpserver.expect_request("/broken").respond_with_data(status=503)
    with pytest.raises(DownloadError, match="^503 Server Error: SERVICE UNAVAILABLE"):
        egress.read(httpserver.url_for("/broken"), most_bytes=MANY)


def test_loopback_is_not_reached_unless_allowed(httpserver):
    httpserver.expect_request("/").respond_with_data(b"secret")
    port = httpserver.port
    for host in ("127.0.0.1", "localhost", "2130706433", "0177.1", "0x7f.1", "[::ffff:7f00:1]"):
        url = f"http://{host}:{port}/"
        with pytest.raises((EgressError, DownloadError)):
            Egress().read(url, most_bytes=MANY)
        with pytest.raises((EgressError, OSError)):
            post(Egress(), url)
    for trick in (r"1.1.1.1\@127.0.0.1", "1.1.1.1@127.0.0.1", "127.0.0.1#@1.1.1.1", "127。0。0。1"):
        with pytest.raises((EgressError, DownloadError)):
            Egress().read(f"http://{trick}:{port}/", most_bytes=MANY, transfer=Transfer(0.5))
    assert httpserver.log == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:7f00:1]", "me:pw@127.0.0.1"])
def test_loopback_is_reached_where_allowed(host, egress, httpserver):
    httpserver.expect_request("/").respond_with_data(b"file")
    assert egress.read(f"http://{host}:{httpserver.port}/", most_bytes=MANY) == b"file"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://1.1.1.1/", "ws://1.1.1.1/", "//x/"])
def test_only_http_and_https_are_reached(url, egress):
    with pytest.raises((EgressError, DownloadError)):
        egress.read(url, most_bytes=MANY)
    with pytest.raises(EgressError):
        post(egress, url)


@pytest.mark.parametrize(
    "url", ["", "http://", "http://[::", "http://a:b/", "http://1.2.3.999/", "x"]
)
def test_what_is_no_url_is_refused(url, egress):
    with pytest.raises((DownloadError, EgressError)):
        egress.read(url, most_bytes=MANY)
    with pytest.raises(EgressError):
        post(egress, url)


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("http://a.example/b", None),
        ("https://1.1.1.1:8080/", None),
        ("http://127.0.0.1/", None),
        ("http://[::ffff:127.0.0.1]/", None),
        ("http://10.0.0.1/", "not public (private use)"),
        ("http://0xa.1/", "not public (private use)"),
        ("http://[::1]/", "not public (loopback)"),
        ("ftp://a.example/", "ftp"),
        ("a.example", "http and https are"),
        ("http://", "no host"),
        ("http://a:b/", "Invalid port"),
    ],
)
def test_a_fault_of_a_url_is_found_without_a_name_server(url, fault, egress, monkeypatch):
    real = socket.getaddrinfo

    def resolve(*args, **kwargs):
        assert kwargs["flags"] == socket.AI_NUMERICHOST
        return real(*args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    found = egress.find_fault(url)
    assert found is None if fault is None else fault in found


def test_redirects_are_followed_and_checked(egress, httpserver):
    httpserver.expect_request("/a").respond_with_response(
        Response(status=302, headers={"location": "/b"})
    )
    httpserver.expect_request("/b").respond_with_data(b"file")
    assert egress.read(httpserver.url_for("/a"), most_bytes=MANY) == b"file"
    for target in ("http://169.254.169.254/", f"http://[::1]:{httpserver.port}/", "ftp://1.1.1.1/"):
        httpserver.expect_oneshot_request("/c").respond_with_response(
            Response(status=307, headers={"location": target})
        )
        with pytest.raises(EgressError):
            egress.read(httpserver.url_for("/c"), most_bytes=MANY)


def test_redirects_end_somewhere(egress, httpserver):
    def count(request):
        left = int(request.args["left"])
        return (
            Response(status=302, headers={"location": f"/r?left={left - 1}"})
            if left
            else Response("end")
        )

    httpserver.expect_request("/r").respond_with_handler(count)
    assert egress.read(httpserver.url_for("/r?left=10"), most_bytes=MANY) == b"end"
    with pytest.raises(DownloadError, match="more than 10 times"):
        egress.read(httpserver.url_for("/r?left=11"), most_bytes=MANY)


def test_the_body_of_a_redirect_is_not_read(egress):
    head = b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\n\r\n"
    with (
        raw_server(itertools.chain([head], itertools.repeat(b"x" * 2**16))) as port,
        pytest.raises(EgressError),
    ):
        egress.read(f"http://127.0.0.1:{port}/", most_bytes=MANY)


def test_the_address_that_was_checked_is_connected_to(names, egress, httpserver):
    httpserver.expect_request("/").respond_with_data(b"file")
    names["rebound.example"] = iter([["127.0.0.1"]])  # a second question would be an error
    assert egress.read(f"http://rebound.example:{httpserver.port}/", most_bytes=MANY) == b"file"
    names["rebound.example"] = iter([["127.0.0.1"]])
    httpserver.expect_request("/", method="POST").respond_with_data(b"")
    assert post(egress, f"http://rebound.example:{httpserver.port}/").status == 200
    seen = [request.headers["Host"] for request, _ in httpserver.log]
    assert seen == [f"rebound.example:{httpserver.port}"] * 2


def test_each_redirect_is_resolved_anew(names, egress, httpserver):
    url = f"http://rebound.example:{httpserver.port}/"
    names["rebound.example"] = iter([["127.0.0.1"], ["10.0.0.1"]])
    httpserver.expect_request("/").respond_with_response(
        Response(status=302, headers={"location": url, "connection": "close"})
    )
    with pytest.raises(EgressError, match="its address is not public"):
        egress.read(url, most_bytes=MANY)


def test_the_next_address_is_tried_where_the_first_is_dead(names, egress, httpserver):
    httpserver.expect_request("/").respond_with_data(b"file")
    url = f"http://two.example:{httpserver.port}/"
    names["two.example"] = itertools.repeat(["127.0.0.2", "127.0.0.1"])
    assert egress.read(url, most_bytes=MANY) == b"file"
    assert post(egress, url).status == 200


def test_proxies_and_passwords_of_the_environment_are_not_used(
    egress, httpserver, monkeypatch, tmp_path
):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    httpserver.expect_request("/").respond_with_data(b"file")
    assert egress.read(httpserver.url_for("/"), most_bytes=MANY) == b"file"
    assert post(egress, httpserver.url_for("/")).status == 200
    assert all("Authorization" not in request.headers for request, _ in httpserver.log)


def test_a_file_over_the_limit_is_refused_and_removed(egress, httpserver, tmp_path):
    httpserver.expect_request("/").respond_with_data(b"x" * 1001)
    with pytest.raises(DownloadError, match="more than 1000 bytes"):
        egress.download(httpserver.url_for("/"), tmp_path / "a", most_bytes=1000)
    assert not (tmp_path / "a").exists()


def test_an_endless_body_is_left(egress):
    for head in (b"", b"content-encoding: gzip\r\n"):
        # what follows the end of gzip data is no more data: it must count all the same
        body = itertools.chain([gzip.compress(b"")], itertools.repeat(gzip.compress(b"")))
        start = b"HTTP/1.1 200 OK\r\n" + head + b"\r\n"
        with raw_server(itertools.chain([start], body)) as port, pytest.raises(DownloadError):
            egress.read(f"http://127.0.0.1:{port}/", most_bytes=10_000)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_the_limit_counts_what_is_decompressed(coding, egress, httpserver):
    pack = gzip.compress if coding == "gzip" else zlib.compress
    data = bytes(5_000_000)
    httpserver.expect_request("/").respond_with_data(
        pack(data), headers={"content-encoding": coding}
    )
    assert egress.read(httpserver.url_for("/"), most_bytes=len(data)) == data
    with pytest.raises(DownloadError, match="more than"):
        egress.read(httpserver.url_for("/"), most_bytes=len(data) - 1)


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(bytes(100), mtime=0)[:-9]),
        ("gzip", b"plain"),
        ("br", b"x"),
        ("gzip, gzip", b""),
    ],
)
def test_data_that_cannot_be_decompressed_is_no_file(coding, body, egress, httpserver):
    httpserver.expect_request("/").respond_with_data(body, headers={"content-encoding": coding})
    with pytest.raises(DownloadError):
        egress.read(httpserver.url_for("/"), most_bytes=MANY)


def test_several_members_of_gzip_are_one_file(egress, httpserver):
    body = gzip.compress(b"a") + gzip.compress(b"b")
    httpserver.expect_request("/").respond_with_data(body, headers={"content-encoding": "gzip"})
    assert egress.read(httpserver.url_for("/"), most_bytes=MANY) == b"ab"


def test_a_body_that_breaks_off_is_no_file(egress, tmp_path):
    with (
        raw_server([b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345"]) as port,
        pytest.raises(DownloadError),
    ):
        egress.download(f"http://127.0.0.1:{port}/", tmp_path / "a", most_bytes=MANY)
    assert not (tmp_path / "a").exists()


def test_a_host_that_says_nothing_is_left(egress):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(DownloadError, match="too slow"):
            egress.read(url, most_bytes=MANY, transfer=Transfer(0.1))
        with pytest.raises(TimeoutError, match=r"no answer within 0\.1 s"):
            post(egress, url, timeout=0.1)
    with pytest.raises(DownloadError):
        egress.read(url, most_bytes=MANY)
    with pytest.raises(ConnectionError):
        post(Egress(["127.0.0.0/8"]), url)


def test_a_host_that_answers_by_drops_is_left(egress):
    def drops():
        yield b"HTTP/1.1 200 OK\r\n"
        for _ in range(100):
            threading.Event().wait(0.05)
            yield b"a: b\r\n"

    with raw_server(drops()) as port, pytest.raises(TimeoutError):
        post(egress, f"http://127.0.0.1:{port}/", timeout=0.3)


def test_a_cookie_is_not_kept_for_the_next_request(egress, httpserver):
    httpserver.expect_request("/").respond_with_data(headers={"set-cookie": "a=b; path=/"})

    async def twice():
        for _ in range(2):
            await egress.post(httpserver.url_for("/"), b"", {}, timeout=5)
        await egress.aclose()

    asyncio.run(twice())
    for _ in range(2):
        egress.read(httpserver.url_for("/"), most_bytes=MANY)
    assert len(httpserver.log) == 4
    assert all("Cookie" not in request.headers for request, _ in httpserver.log)


def test_a_post_carries_its_body_and_headers_and_follows_nothing(egress, httpserver):
    httpserver.expect_request("/", method="POST").respond_with_response(
        Response(status=307, headers={"location": "/elsewhere", "retry-after": "7"})
    )
    answer = post(egress, httpserver.url_for("/"), b'{"id":"a"}', {"x-mine": "1"})
    assert answer.status == 307
    assert answer.headers["Retry-After"] == "7"
    [(request, _)] = httpserver.log
    assert request.data == b'{"id":"a"}'
    assert request.headers["X-Mine"] == "1"


def test_an_endless_answer_to_a_post_is_left(egress):
    start = b"HTTP/1.1 200 OK\r\n\r\n"
    with raw_server(itertools.chain([start], itertools.repeat(b"x" * 2**16))) as port:
        assert post(egress, f"http://127.0.0.1:{port}/").status == 200


@pytest.fixture
def tls(tmp_path, monkeypatch):
    """An https server for right.example; the environment names its authority."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("right.example").configure_cert(context)
    sni = []
    context.sni_callback = lambda _socket, name, _context: sni.append(name)

    def serve(listener):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with (
                    contextlib.suppress(OSError),
                    context.wrap_socket(connection, server_side=True) as secured,
                ):
                    read_request(secured)
                    secured.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1], sni
        listener.shutdown(socket.SHUT_RDWR)


def test_tls_checks_the_name_of_the_url_not_the_address(names, tls, egress):
    port, sni = tls
    names["right.example"] = itertools.repeat(["127.0.0.1"])
    names["wrong.example"] = itertools.repeat(["127.0.0.1"])
    assert egress.read(f"https://right.example:{port}/", most_bytes=MANY) == b"ok"
    assert post(egress, f"https://right.example:{port}/").status == 200
    assert sni == ["right.example"] * 2
    with pytest.raises(DownloadError, match="certificate"):
        egress.read(f"https://wrong.example:{port}/", most_bytes=MANY)
    with pytest.raises(ConnectionError, match="certificate"):
        post(Egress(["127.0.0.0/8"]), f"https://wrong.example:{port}/")


def test_tls_checks_the_authority(names, tls, monkeypatch):
    port, _ = tls
    names["right.example"] = itertools.repeat(["127.0.0.1"])
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(DownloadError, match="certificate"):
        Egress(["127.0.0.0/8"]).read(f"https://right.example:{port}/", most_bytes=MANY)
