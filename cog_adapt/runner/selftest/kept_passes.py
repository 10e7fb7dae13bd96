"""Stores passes of the whole self-test beside the weights, with their conditions.

A file holds one pass. A missing, unreadable or outdated file counts as no pass. If none can be
written, the next process runs the full test.
"""

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cog_adapt.runner.data.files import read_text, write_whole
from cog_adapt.runner.errors import InputError, StoreError

_FOLDER = "selftest"
_FORMAT = 1
_MOST_BYTES = 65_536
# for other cards, versions and states of the code; the longest unused pass is removed first
_MOST_PASSES = 32
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeptPass:
    """A pass of the whole self-test: the codes of its warnings and notes."""

    codes: tuple[str, ...]


class KeptPasses:
    """The passes in a folder of weights; several processes may read and write it at once."""

    def __init__(self, weights_dir: Path) -> None:
        self._folder = weights_dir / _FOLDER

    def find(self, conditions: Mapping[str, str]) -> KeptPass | None:
        """Return the pass under exactly these conditions, or None."""
        path = self._path(conditions)
        try:
            kept = _parsed(json.loads(read_text(path, _MOST_BYTES)), conditions)
        except (InputError, ValueError, RecursionError):
            return None
        if kept is not None:
            with contextlib.suppress(OSError):
                os.utime(path)
        return kept

    def keep(self, conditions: Mapping[str, str], passed: KeptPass) -> None:
        """Write a pass; a failed write is logged."""
        values = {"format": _FORMAT, "conditions": dict(conditions), "codes": passed.codes}
        text = json.dumps(values, indent=2, sort_keys=True)
        try:
            write_whole(self._path(conditions), f"{text}\n".encode())
        except StoreError as error:
            _log.warning(
                "the pass of the self-test is not kept, so the next start tests all again: %s",
                error,
            )
        self._remove_oldest()

    def drop(self, conditions: Mapping[str, str]) -> None:
        """Remove a pass that is no longer valid."""
        with contextlib.suppress(OSError):
            self._path(conditions).unlink(missing_ok=True)

    def _path(self, conditions: Mapping[str, str]) -> Path:
        text = json.dumps(dict(conditions), sort_keys=True)
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def _remove_oldest(self) -> None:
        # another process removed the file, or the folder is gone
        with contextlib.suppress(OSError):
            files = sorted(self._folder.iterdir(), key=lambda file: file.stat().st_mtime)
            for file in files[:-_MOST_PASSES]:
                file.unlink(missing_ok=True)


def _parsed(value: Any, conditions: Mapping[str, str]) -> KeptPass | None:  # noqa: ANN401 - JSON
    """Return the pass in a file's content, if it is one and has these conditions."""
    if not isinstance(value, dict) or value.get("format") != _FORMAT:
        return None
    codes = value.get("codes")
    if value.get("conditions") != dict(conditions) or not isinstance(codes, list):
        return None
    return KeptPass(tuple(map(str, codes)))
