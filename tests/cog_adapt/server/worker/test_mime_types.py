"""What an output file's extension says."""

import pytest

from cog_adapt.server.worker.mime_types import mime_type

# what Cog 0.23.1 calls these on a machine with Debian's table, and what that lacks
TABLE = """
application/epub+zip .epub
application/font-sfnt .otf
application/font-woff .woff
application/geo+json .geojson
application/gzip .gz
application/octet-stream .ass .h5
application/rtf .rtf
application/vnd.apache.parquet .parquet
application/vnd.ms-pki.stl .stl
application/vnd.openxmlformats-officedocument.presentationml.presentation .pptx
application/vnd.openxmlformats-officedocument.spreadsheetml.sheet .xlsx
application/vnd.openxmlformats-officedocument.wordprocessingml.document .docx
application/x-7z-compressed .7z
application/x-bzip2 .bz2
application/x-compressed .tgz
application/x-rar-compressed .rar
application/x-subrip .srt
application/x-tgif .obj
application/x-xz .xz
audio/aiff .aif .aiff
audio/flac .flac
audio/m4a .m4a
audio/mid .mid .midi
audio/ogg .oga .ogg .opus
audio/wav .wav
audio/webm .weba
audio/x-matroska .mka
audio/x-mpegurl .m3u8
font/ttf .ttf
font/woff2 .woff2
image/jp2 .jp2
image/jxl .jxl
image/vnd.radiance .hdr
image/webp .webp
image/x-icon .ico
model/gltf+json .gltf
model/gltf-binary .glb
text/javascript .js
text/markdown .md
text/plain .cfg .ini .log .py
text/x-toml .toml
text/x-yaml .yaml .yml
video/3gpp .3gp
video/ogg .ogv
video/vnd.dlna.mpeg-tts .ts
video/x-flv .flv
video/x-m4v .m4v
video/x-matroska .mkv
video/x-ms-wmv .wmv
"""


@pytest.mark.parametrize("line", TABLE.split("\n")[1:-1])
def test_these_have_the_types_of_the_table(line):
    kind, *suffixes = line.split()
    assert {mime_type(f"a{suffix}") for suffix in suffixes} == {kind}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.png", "image/png"),
        ("a.JPG", "image/jpeg"),
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
