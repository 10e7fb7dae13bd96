"""JSON as Cog writes it: with sorted keys."""

import hashlib

import msgspec

_encoder = msgspec.json.Encoder(order="sorted")


def encode(body: object) -> bytes:
    """Encode as JSON with sorted keys."""
    return _encoder.encode(body)


def digest_of(inputs: bytes) -> str:
    """Return the SHA-256 of inputs as sorted JSON, in hex."""
    return hashlib.sha256(inputs).hexdigest()
