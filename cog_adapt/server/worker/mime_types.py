"""Finds the MIME type of an output file by its extension alone, the same on every machine.

The module `mimetypes` also reads /etc/mime.types, which a slim image lacks and which has oddities
(.pt is a game console's). So only its built-in table is used, and above it this one, for files that
models return and that Cog types differently or not at all.
"""

import mimetypes
from pathlib import PurePath

_OCTETS = "application/octet-stream"
_COMMON = mimetypes.MimeTypes()  # without the files of the machine
_COG = {
    **dict.fromkeys((".aif", ".aiff"), "audio/aiff"),
    **dict.fromkeys((".cfg", ".ini", ".log", ".py"), "text/plain"),
    **dict.fromkeys((".mid", ".midi"), "audio/mid"),
    **dict.fromkeys((".oga", ".ogg", ".opus"), "audio/ogg"),
    **dict.fromkeys((".yaml", ".yml"), "text/x-yaml"),
    **dict.fromkeys((".ass", ".h5"), _OCTETS),
    ".3gp": "video/3gpp",
    ".7z": "application/x-7z-compressed",
    ".bz2": "application/x-bzip2",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".epub": "application/epub+zip",
    ".flac": "audio/flac",
    ".flv": "video/x-flv",
    ".geojson": "application/geo+json",
    ".glb": "model/gltf-binary",
    ".gltf": "model/gltf+json",
    ".gz": "application/gzip",
    ".hdr": "image/vnd.radiance",
    ".ico": "image/x-icon",
    ".jp2": "image/jp2",
    ".js": "text/javascript",
    ".jxl": "image/jxl",
    ".m3u8": "audio/x-mpegurl",
    ".m4a": "audio/m4a",
    ".m4v": "video/x-m4v",
    ".md": "text/markdown",
    ".mka": "audio/x-matroska",
    ".mkv": "video/x-matroska",
    ".obj": "application/x-tgif",
    ".ogv": "video/ogg",
    ".otf": "application/font-sfnt",
    ".parquet": "application/vnd.apache.parquet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".rar": "application/x-rar-compressed",
    ".rtf": "application/rtf",
    ".srt": "application/x-subrip",
    ".stl": "application/vnd.ms-pki.stl",
    ".tgz": "application/x-compressed",
    ".toml": "text/x-toml",
    ".ts": "video/vnd.dlna.mpeg-tts",
    ".ttf": "font/ttf",
    ".wav": "audio/wav",
    ".weba": "audio/webm",
    ".webp": "image/webp",
    ".wmv": "video/x-ms-wmv",
    ".woff": "application/font-woff",
    ".woff2": "font/woff2",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".xz": "application/x-xz",
}


def mime_type(name: str) -> str:
    """Return the MIME type of a file name; application/octet-stream if it is unknown."""
    suffix = PurePath(name).suffix.lower()
    common = _COMMON.types_map[True]  # the registered types
    return _COG.get(suffix) or common.get(suffix) or _OCTETS
