"""Output files in the page: inside the answer, or where the server has put them."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

from tests.cog_adapt.contract.receivers import Receiver
from tests.cog_adapt.page.acts import run, until_ended

TYPES = {"png": "image/png", "wav": "audio/wav", "mp4": "video/mp4", "txt": "text/plain"}
LENGTH = "() => document.querySelector('audio')?.duration === 0.5"


class Bucket(BaseHTTPRequestHandler):
    """Keeps what is PUT, and gives it to whoever asks."""

    kept: dict[str, bytes] = {}

    def do_PUT(self):
        self.kept[self.path] = self.rfile.read(int(self.headers["content-length"]))
        self._answer(200, b"")

    def do_GET(self):
        found = self.kept.get(self.path)
        self._answer(404 if found is None else 200, found or b"")

    def _answer(self, status, body):
        self.send_response(status)
        self.send_header("content-type", TYPES.get(self.path.rpartition(".")[2], "text/plain"))
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Say nothing."""


@pytest.fixture(scope="module")
def bucket():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def uploading(start, bucket):
    with start("media.py:Predictor", flags=("--upload-url", f"{bucket}/up")) as server:
        yield server


@pytest.fixture(scope="module")
def plain(start):
    with start("media.py:Predictor") as server:
        yield server


def show(page, **inputs):
    page.evaluate("inputs => document.querySelector('run-view').set(inputs)", inputs)
    run(page)
    until_ended(page, "succeeded")


@pytest.mark.parametrize("place", ["plain", "uploading"])
def test_pictures_and_sounds_are_in_the_page_and_what_cannot_be_shown_is_a_link(
    visit, request, bucket, place
):
    server = request.getfixturevalue(place)
    page = visit(server.url)
    show(page)
    begin = "data:" if place == "plain" else f"{bucket}/up"
    expect(page.locator("output-value img")).to_have_js_property("naturalWidth", 3)
    assert page.locator("output-value img").get_attribute("src").startswith(begin)
    page.wait_for_function(LENGTH)
    assert page.locator("output-value audio").get_attribute("src").startswith(begin)
    expect(page.locator("output-value video")).to_be_hidden()
    expect(page.locator(f"output-value figcaption a[href^='{begin}']")).to_have_count(4)


def test_files_of_another_server_are_links_that_say_so_and_it_is_never_called(visit, uploading):
    with Receiver() as elsewhere:
        page = visit(uploading.url)
        show(page, elsewhere=elsewhere.url)
        link = page.locator(f"output-value a[href='{elsewhere.url}/x.png']")
        expect(link).to_have_attribute("rel", "noopener noreferrer")
        caption = page.locator(
            "output-value figcaption", has=page.locator(f"a[href='{elsewhere.url}/x.png']")
        )
        expect(caption).to_contain_text("This picture is on another server")
        expect(page.locator("output-value")).to_contain_text("This sound is on another server")
        expect(page.locator("output-value img")).to_have_count(1)
        page.get_by_role("link", name="History").click()
        page.locator(".entry a").first.click()
        expect(page.locator("run-detail output-value")).to_contain_text("on another server")
        assert elsewhere.requests == []


def test_without_an_upload_url_no_other_server_is_called(visit, plain):
    with Receiver() as elsewhere:
        page = visit(plain.url)
        show(page, elsewhere=elsewhere.url)
        expect(page.locator("output-value")).to_contain_text("This picture is on another server")
        assert elsewhere.requests == []
