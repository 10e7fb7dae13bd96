"""What an output file's extension says."""

import pytest

from cog_adapt.server.worker.mime_types import mime_type


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.png", "image/png"),
        ("a.JPG", "image/jpeg"),
        ("a.wav", "audio/wav"),  # the module mimetypes says audio/x-wav
        ("a.webp", "image/webp"),  # and nothing of these two without the machine's table
        ("a.mkv", "video/x-matroska"),
        ("a.tar.gz", "application/gzip"),
        ("weights.pt", "application/octet-stream"),  # of which Debian's table has a game's
        ("weights.safetensors", "application/octet-stream"),
        ("noext", "application/octet-stream"),
        (".png", "application/octet-stream"),
        ("", "application/octet-stream"),
    ],
)
def test_it_is_what_cog_says_on_every_machine(name, kind):
    assert mime_type(name) == kind
