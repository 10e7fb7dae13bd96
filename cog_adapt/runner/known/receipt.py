"""A receipt: everything that an adaptation's result depends on, and the result, signed or unsigned.

It is a JSON object. `digest` is the SHA-256 of the rest, and `signature` is Ed25519's (RFC 8032)
over the same bytes. This module knows no model, no store and no transport.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cog_adapt.runner.errors import ConfigError, InputError

FORMAT = "cog-adapt/receipt/1"
Receipt = dict[str, Any]
_OVER = ("digest", "signature")
_SHOWN = 80
MOST_BYTES = 16 * 2**20  # a receipt of 10,000 examples and steps has about 1 MiB


class Signer:
    """Signs receipts.

    Args:
        path: a PEM file with an Ed25519 private key, without a password (RECEIPT_KEY).

    Raises:
        ConfigError: the file holds no such key.
    """

    def __init__(self, path: Path) -> None:
        # Imported here: only installations with a signing key need it.
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(path.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(_no_key(path, error)) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigError(_no_key(path, f"it holds another kind of key, {type(key).__name__}"))
        self._key = key

    def sign(self, content: bytes) -> dict[str, str]:
        """Return a receipt's `signature`."""
        public = self._key.public_key().public_bytes_raw()
        return {
            "algorithm": "Ed25519",
            "public_key": base64.b64encode(public).decode(),
            "value": base64.b64encode(self._key.sign(content)).decode(),
        }


def sealed(values: Mapping[str, Any], signer: Signer | None) -> Receipt:
    """Return a receipt of these values with its digest, signed if there is a key."""
    receipt = {"format": FORMAT, **values}
    content = _content(receipt)
    receipt["digest"] = hashlib.sha256(content).hexdigest()
    return receipt | ({"signature": signer.sign(content)} if signer else {})


def read_receipt(text: str | bytes, public_key: Path | None = None) -> Receipt:
    """Read a receipt, and check that it is unchanged.

    Args:
        text: JSON.
        public_key: PEM file of the key that must have signed it; None: any signature or none will
            do.

    Raises:
        InputError: the text is no receipt, was changed, or was signed by another key.
    """
    if len(text) > MOST_BYTES:
        raise InputError(
            f"the receipt has {len(text):,} bytes; the limit is {MOST_BYTES:,}. Send it unchanged."
        )
    try:
        receipt = json.loads(text)
        form, digest = receipt["format"], receipt["digest"]
        content = _content(receipt)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"this is no receipt: {error!r:.{_SHOWN}}. Send one of {FORMAT!r}."
        ) from error
    if form != FORMAT:
        raise InputError(
            f"the receipt's format is {form!r:.{_SHOWN}}; {FORMAT!r} can be read. Send one."
        )
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise InputError(
            f"the receipt was changed: it states the digest {digest!r:.{_SHOWN}}, but has "
            f"{found!r}. Fetch it again from the server that made it."
        )
    _check_signature(receipt.get("signature"), content, public_key)
    return dict(receipt)


def _check_signature(signature: object, content: bytes, public_key: Path | None) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    wanted = None if public_key is None else _read_public(public_key)
    if signature is None and wanted is None:
        return
    if not isinstance(signature, Mapping):
        raise InputError("the receipt is not signed. Ask for a signed one, or name no public key.")
    try:
        raw = base64.b64decode(signature["public_key"])
        key = Ed25519PublicKey.from_public_bytes(raw)
        key.verify(base64.b64decode(signature["value"]), content)
    except (InvalidSignature, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"the receipt's signature does not fit its content: {error!r}. Fetch it again from the "
            "server that made it."
        ) from error
    if wanted is not None and raw != wanted:
        shown = base64.b64encode(wanted).decode()
        raise InputError(
            f"the receipt was signed by {signature['public_key']!r:.{_SHOWN}}, and not by "
            f"{shown!r}, the key in {public_key}. Name the key of the server that made it."
        )


def _read_public(path: Path) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} holds no public key: {error}. Name a PEM file.") from error
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{path} holds a {type(key).__name__}. Name one of Ed25519.")
    return key.public_bytes_raw()


def _content(receipt: Mapping[str, Any]) -> bytes:
    """Return the bytes under the digest and the signature: JSON with sorted names and no spaces."""
    values = {name: value for name, value in receipt.items() if name not in _OVER}
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


def _no_key(path: Path, reason: object) -> str:
    return (
        f"RECEIPT_KEY is {str(path)!r}, which cannot be used: {reason}; allowed: a PEM file of an "
        "Ed25519 private key without a password (openssl genpkey -algorithm ed25519)."
    )
