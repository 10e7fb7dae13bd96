"""API keys: a file of hashes that is read again when it changes.

A line of the file is `NAME SCOPES SHA256 [EXPIRES] [owner=OWNER]`, such as

    ci   predict,train  2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b  2027-01-01

`#` starts a comment. Two lines of one name, with the old and the new key, replace a key without a
gap. The keys of one owner share everything that their requests make; a key whose line names no
owner is an owner of its own.
"""

import hashlib
import hmac
import logging
import os
import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Literal, cast, get_args

from cog_adapt.server.errors import ConfigError

Scope = Literal["predict", "train", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
OWNER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_OWNER_FIELD = "owner="
_LOOK_AGAIN_SECONDS = 1.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Key:
    """A key's entry in the file; never the key itself.

    Attributes:
        name: of its holder, for logs.
        scopes: of the routes that it opens; `admin` opens every route.
        digest: sha256 of the key in hex. A key is 256 random bits, which cannot be guessed: a slow,
            salted hash would add nothing.
        expires: seconds since 1970; the key is invalid from then on.
        owner: of everything that the key makes; by default its name.
    """

    name: str
    scopes: frozenset[Scope]
    digest: str
    expires: float = inf
    owner: str = ""

    def __post_init__(self) -> None:
        """Make a key without an owner its own."""
        object.__setattr__(self, "owner", self.owner or self.name)

    def opens(self, scope: Scope) -> bool:
        """Return whether the key has a scope."""
        return scope in self.scopes or "admin" in self.scopes


def make_key(name: str, scopes: Iterable[str], owner: str | None = None) -> tuple[str, str]:
    """Make a new key, and the line for the file, which does not reveal the key.

    Raises:
        ConfigError: the name, the owner or a scope is not allowed.
    """
    _check_name(name)
    key = "ca_" + secrets.token_urlsafe(32)
    line = f"{name} {','.join(scopes)} {hashlib.sha256(key.encode()).hexdigest()}"
    line += f" {_OWNER_FIELD}{owner}" if owner is not None else ""
    _key_of_line(line)
    return key, line


def read_keys(text: str) -> tuple[Key, ...]:
    """Parse the keys of a file's text.

    Raises:
        ConfigError: a line is malformed or there twice; its number is named.
    """
    keys: dict[str, Key] = {}
    for number, whole in enumerate(text.splitlines(), 1):
        line = whole.partition("#")[0].strip()
        if not line:
            continue
        try:
            key = _key_of_line(line)
        except ConfigError as error:
            raise ConfigError(f"line {number}: {error}") from error
        if key.digest in keys:
            raise ConfigError(f"line {number}: its key is on an earlier line. Remove one of them.")
        keys[key.digest] = key
    return tuple(keys.values())


def _key_of_line(line: str) -> Key:
    fields = line.split()
    owner = ""
    if fields[-1].startswith(_OWNER_FIELD):
        owner = fields.pop().removeprefix(_OWNER_FIELD)
        _check_name(owner, "owner")
    if not 3 <= len(fields) <= 4:
        raise ConfigError(
            f"{len(fields)} fields; write NAME SCOPES SHA256 [EXPIRES] [{_OWNER_FIELD}OWNER]."
        )
    name, scopes, digest, *expires = fields
    _check_name(name)
    unknown = sorted(set(scopes.split(",")) - set(SCOPES))
    if unknown:
        raise ConfigError(f"scope {unknown[0]!r} is none of {', '.join(SCOPES)}.")
    if not _SHA256.fullmatch(digest):
        # without the value, which may be a key that was pasted here by mistake
        raise ConfigError(
            f"the third field has {len(digest)} characters; write 64 hex digits in lower case."
        )
    allowed = frozenset(cast("list[Scope]", scopes.split(",")))
    return Key(
        name=name,
        scopes=allowed,
        digest=digest,
        expires=_time_of(expires[0]) if expires else inf,
        owner=owner,
    )


def _check_name(name: str, what: str = "name") -> None:
    if not OWNER_NAME.fullmatch(name):
        raise ConfigError(
            f"{what} {name[:80]!r}: write 1 to 64 letters, digits, dots, '_', '@', '-', "
            "starting with a letter or digit."
        )


def _time_of(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"expiry {text!r} is no date; write it as 2027-01-31 (UTC).") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


class KeyRing:
    """The keys that a file has now.

    Raises:
        ConfigError: the file cannot be read, or a line is malformed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = _version(path)
        self._keys = _read(path)
        self._look_at = time.monotonic() + _LOOK_AGAIN_SECONDS
        if not self._keys:
            logger.warning("API_KEYS_FILE %s holds no key: only /healthz is open", path)

    def find(self, key: bytes) -> Key | None:
        """Return the holder of a key; None for an unknown or expired key.

        If the file has become unreadable, this is logged, and the last keys stay valid.
        """
        if time.monotonic() >= self._look_at:
            self._look_again()
        digest = hashlib.sha256(key).hexdigest()
        found = None
        for known in self._keys:  # compares all keys, so that the time tells nothing about them
            if hmac.compare_digest(known.digest, digest):
                found = known
        return found if found and time.time() < found.expires else None

    def _look_again(self) -> None:
        self._look_at = time.monotonic() + _LOOK_AGAIN_SECONDS
        version = _version(self._path)
        if version == self._version:
            return
        self._version = version
        try:
            self._keys = _read(self._path)
        except ConfigError as error:
            logger.error("API keys stay as they were: %s", error)  # noqa: TRY400 - says it all
        else:
            logger.info("API keys read again: %d", len(self._keys))


def _version(path: Path) -> tuple[int, int, int] | None:
    """Return a value that changes with the file's content; None if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def _read(path: Path) -> tuple[Key, ...]:
    try:
        return read_keys(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"API_KEYS_FILE {path} cannot be read: {error}. Correct it.") from error
    except ConfigError as error:
        raise ConfigError(f"API_KEYS_FILE {path}, {error}") from error
