"""What a server may do with the adapters of a runner; docs/predictor-protocol.md describes it.

Every method may be called on any thread, also while predictions run.
"""

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cog_adapt.runner.data.files import write_whole
from cog_adapt.runner.errors import InputError, WeightsError
from cog_adapt.runner.modules.adapters import Adapter, read_adapter
from cog_adapt.runner.storage.changes import apply_changes, checked_changes
from cog_adapt.runner.storage.known import Watcher
from cog_adapt.runner.storage.metadata import Metadata
from cog_adapt.runner.storage.peft_format import PeftFormat
from cog_adapt.runner.storage.store import AdapterStore

Reading = Callable[[str, Callable[[], Adapter]], Adapter]
"""Reads a file for an owner, in turn with whatever else is read."""

FORMATS = ("safetensors", "peft", "receipt")
_SHOWN = 80


class Adapters:
    """The adapters of a runner, as things that owners have.

    Args:
        store: where they are.
        check: returns an adapter that fits the runner's base, and refuses others (WeightsError).
        peft: PEFT's format for that base.
        forget: drops what is known of an owner's adaptations: of one key, or, None, of all.
        reading: has an uploaded file read; at once and on the caller's thread where it is left out.
    """

    def __init__(
        self,
        store: AdapterStore,
        check: Callable[[Adapter], Adapter],
        peft: PeftFormat,
        forget: Callable[[str, str | None], None],
        reading: Reading = lambda _owner, read: read(),
    ) -> None:
        self._store = store
        self._check = check
        self._peft = peft
        self._forget = forget
        self._reading = reading

    def describe(self, owner: str | None) -> list[dict[str, Any]]:
        """Return the metadata of an owner's adapters, oldest first; None: of all owners'."""
        return [known.to_json() for known in self._store.describe(owner)]

    def export(self, owner: str, adapter_id: str, format: str, folder: Path) -> Path:
        """Write an adapter into a folder: safetensors, a .zip of PEFT's two files, or its receipt.

        Raises:
            InputError: the format is another, has no place for what the adapter trains, or there is
                no receipt.
            AdapterNotFound: nobody lets this owner use such an adapter.
            WeightsError: its file is damaged.
            StoreError: the folder cannot be written.
        """
        if format not in FORMATS:
            raise InputError(
                f"format is {repr(format)[:_SHOWN]}; allowed: {', '.join(FORMATS)}. Choose one."
            )
        if format == "receipt":
            path = folder / f"{adapter_id}.receipt.json"
            write_whole(path, json.dumps(self._receipt(owner, adapter_id), indent=1).encode())
            return path
        adapter = self._store.peek(adapter_id, owner)
        is_peft = format == "peft"
        path = folder / f"{adapter.id}.{'zip' if is_peft else 'safetensors'}"
        write_whole(path, self._peft.write(adapter) if is_peft else adapter.to_bytes())
        return path

    def _receipt(self, owner: str, adapter_id: str) -> Mapping[str, Any]:
        """Return how an owner's own adapter was made: who it is shared with need not know."""
        known = self._store.known(adapter_id, owner)
        decision = self._store.decisions.of_adapter(owner, known.id)
        if known.owner != owner or decision is None or not decision.receipt:
            raise InputError(
                f"adapter {adapter_id[:_SHOWN]!r} has no receipt here: it was sent as a file, is "
                "another's, or is older than receipts. Make it again from its examples."
            )
        return decision.receipt

    def take(self, owner: str, path: Path) -> dict[str, Any]:
        """Keep the adapter of an uploaded file, ours or PEFT's, and return its metadata.

        Raises:
            InputError: the file is no adapter of this base; the message says why.
            StoreError: the disk, or its budget, is full.
        """
        try:
            adapter = self._reading(owner, lambda: self._read(path))
        except WeightsError as error:
            raise InputError(str(error)) from error
        self._store.put(adapter, owner)
        return self._store.known(adapter.id, owner).to_json()

    def _read(self, path: Path) -> Adapter:
        is_peft = zipfile.is_zipfile(path)
        return self._check(self._peft.read(path) if is_peft else read_adapter(path))

    def change(self, owner: str, adapter_id: str, changes: Mapping[str, object]) -> dict[str, Any]:
        """Change name, notes, expires_at, pinned or shared; return the metadata.

        `owner` alone gives it to another owner; who may do that is the caller's to say.

        Raises:
            InputError: another key, or a value that is not allowed.
            AdapterNotFound: this owner has no such adapter.
            StoreError: the disk is full.
        """
        if [*changes] == ["owner"]:
            return self._store.give(adapter_id, owner, str(changes["owner"])).to_json()
        checked = checked_changes(changes)
        changed = self._store.change(
            adapter_id,
            owner,
            lambda known, next_version: apply_changes(known, checked, next_version),
        )
        return changed.to_json()

    def remove(self, owner: str, adapter_id: str) -> dict[str, Any]:
        """Remove an adapter everywhere; `children` are the ids that were made from it.

        Raises:
            AdapterNotFound: this owner has no such adapter.
            StoreError: a file cannot be removed.
        """
        return {"removed": True, "children": self._store.remove(adapter_id, owner)}

    def forget(self, owner: str, key: str | None = None) -> None:
        """Forget what was decided for this key, where no adapter was made; None: all."""
        self._forget(owner, key)

    def note(self, owner: str, adapter_id: str, metadata: Mapping[str, Any] | None) -> None:
        """Know an adapter as another process has written it; None: it is gone from here too."""
        known = None if metadata is None else Metadata.from_json(json.dumps(metadata).encode())
        if known is not None or metadata is None:
            self._store.note(adapter_id, owner, known)

    def watch(self, callback: Watcher) -> None:
        """Call `callback(owner, adapter_id, metadata)` at each change; None: it is gone."""
        self._store.watch(callback)
