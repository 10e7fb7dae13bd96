"""Capabilities in URLs: a signature opens one thing of one owner until it expires.

Some clients send no key to the URLs in an answer. The secret lies in the data folder, or in the
PostgreSQL that servers share; without it, all URLs so far are void.
"""

import base64
import contextlib
import hashlib
import hmac
import os
import secrets
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlencode

from cog_adapt.server.errors import Forbidden
from cog_adapt.server.postgresql import is_postgresql, transaction

SECONDS: Final = 3600
_NAME: Final = "url-secret"
_BYTES: Final = 32


class SignedUrls:
    """Signs and checks the queries of URLs.

    Args:
        folder: has the secret, which is made at first use.
        secret: in place of the folder's.
    """

    def __init__(self, folder: Path, secret: bytes | None = None) -> None:
        self._path = folder / _NAME
        self._secret = secret

    @classmethod
    def shared(cls, folder: Path, database: str | None) -> Self:
        """Read the secret of a PostgreSQL, or make it from the folder's; else use the folder.

        Raises:
            OSError: the secret cannot be read or made.
        """
        if database is None or not is_postgresql(database):
            return cls(folder)
        with transaction(database) as cursor:
            cursor.execute(
                "INSERT INTO secrets (name, content) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                (_NAME, _read_or_make(folder / _NAME)),
            )
            cursor.execute("SELECT content FROM secrets WHERE name = %s", (_NAME,))
            return cls(folder, bytes(cursor.fetchone()[0]))

    def query(self, purpose: str, identifier: str, owner: str, seconds: float = SECONDS) -> str:
        """Return the query that opens a thing.

        Args:
            purpose: what the URL opens; a signature for one purpose is void for another.
            identifier: of the thing.
            owner: of the thing.
            seconds: until the URL expires.

        Raises:
            OSError: the secret cannot be read or made.
        """
        expiry = str(int(time.time() + seconds))
        signature = self._sign(purpose, identifier, owner, expiry)
        return urlencode({"expiry": expiry, "owner": owner, "signature": signature})

    def owner(self, purpose: str, identifier: str, query: Mapping[str, str]) -> str:
        """Return the owner whom a query names, if its signature is good.

        Raises:
            Forbidden: it is not signed here for this thing, or has expired.
            OSError: the secret cannot be read or made.
        """
        owner, expiry = query.get("owner", ""), query.get("expiry", "")
        expected = self._sign(purpose, identifier, owner, expiry)
        if not hmac.compare_digest(expected.encode(), query.get("signature", "").encode()):
            raise Forbidden("the signature in this URL is not of this server. Get the URL again.")
        if int(expiry) <= time.time():
            raise Forbidden("this URL has expired. Get it again from the answer that names it.")
        return owner

    def _sign(self, purpose: str, identifier: str, owner: str, expiry: str) -> str:
        if self._secret is None:
            self._secret = _read_or_make(self._path)
        key = hmac.digest(self._secret, purpose.encode(), hashlib.sha256)
        words = f"{owner} {identifier} {expiry}".encode(errors="surrogateescape")
        return base64.b64encode(hmac.digest(key, words, hashlib.sha256)).decode()


def _read_or_make(path: Path) -> bytes:
    """Return the secret; of servers that make it at the same time, one wins."""
    if not path.exists():
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{_NAME}-")
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
        Path(name).unlink()
    return path.read_bytes()
