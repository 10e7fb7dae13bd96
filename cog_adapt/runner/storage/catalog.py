"""The adapter operations that a server offers; docs/predictor-protocol.md describes them.

Every method may be called on any thread, also while predictions run.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cog_adapt.adapter_metadata import AdapterMetadata
from cog_adapt.runner.data.files import write_whole
from cog_adapt.runner.errors import InputError, WeightsError
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.storage.adapter_files import AdapterFiles
from cog_adapt.runner.storage.changes import apply_changes, checked_changes
from cog_adapt.runner.storage.known import Watcher
from cog_adapt.runner.storage.store import AdapterStore

Reading = Callable[[str, Callable[[], Adapter]], Adapter]
"""Reads a file for an owner, in turn with other reads."""

FORMATS = ("safetensors", "peft", "diffusers", "kohya", "receipt")
_SHOWN = 80


class Adapters:
    """The adapters of a runner, by owner.

    Args:
        store: of the adapters.
        files: writes and reads the runner's adapters.
        forget: drops an owner's cached adaptations of one key, or, with None, of all.
        reading: reads an uploaded file on a thread of its own; without it the caller's thread
            reads.
        pause_unless: pauses adaptations while what it is given returns False.
    """

    def __init__(
        self,
        store: AdapterStore,
        files: AdapterFiles,
        forget: Callable[[str, str | None], None],
        reading: Reading = lambda _owner, read: read(),
        pause_unless: Callable[[Callable[[], bool]], None] = lambda _may_advance: None,
    ) -> None:
        self._pause_unless = pause_unless
        self._store = store
        self._files = files
        self._forget = forget
        self._reading = reading

    def describe(self, owner: str | None) -> list[dict[str, Any]]:
        """Return the metadata of an owner's adapters, oldest first; None: of all owners."""
        return [known.to_json() for known in self._store.describe(owner)]

    def export(self, owner: str, adapter_id: str, format: str, folder: Path) -> Path:
        """Write an adapter into a folder in one of `FORMATS`; a receipt is its description.

        Raises:
            InputError: the format is unknown or cannot hold the adapter's method, or there is no
                receipt.
            AdapterNotFound: this owner may use no such adapter.
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
        content, ending = self._files.write(adapter, format)
        path = folder / f"{adapter.id}.{ending}"
        write_whole(path, content)
        return path

    def _receipt(self, owner: str, adapter_id: str) -> Mapping[str, Any]:
        """Return the receipt of an owner's own adapter; sharing does not include the receipt."""
        known = self._store.known(adapter_id, owner)
        decision = self._store.decisions.of_adapter(owner, known.id)
        if known.owner != owner or decision is None or not decision.receipt:
            raise InputError(
                f"adapter {adapter_id[:_SHOWN]!r} has no receipt here: it was sent as a file, "
                "belongs to another owner, or is older than receipts. Make it again from its "
                "examples."
            )
        return decision.receipt

    def take(self, owner: str, path: Path) -> dict[str, Any]:
        """Store the adapter of an uploaded file in any format, and return its metadata.

        Raises:
            InputError: the file is no adapter of this base; the message says why.
            StoreError: the disk, or its budget, is full.
        """
        try:
            adapter = self._reading(owner, lambda: self._files.read(path))
        except WeightsError as error:
            raise InputError(str(error)) from error
        self._store.put(adapter, owner)
        return self._store.known(adapter.id, owner).to_json()

    def change(self, owner: str, adapter_id: str, changes: Mapping[str, object]) -> dict[str, Any]:
        """Change name, notes, expires_at, pinned or shared; return the metadata.

        A change of `owner` stands alone and gives the adapter away; the caller checks the
        permission.

        Raises:
            InputError: a key is unknown, or its value not allowed.
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
        """Remove an adapter everywhere; `children` are the ids of adapters made from it.

        Raises:
            AdapterNotFound: this owner has no such adapter.
            StoreError: a file cannot be removed.
        """
        return {"removed": True, "children": self._store.remove(adapter_id, owner)}

    def forget(self, owner: str, key: str | None = None) -> None:
        """Forget decisions for this key that made no adapter; None: for all keys."""
        self._forget(owner, key)

    def note(self, owner: str, adapter_id: str, metadata: Mapping[str, Any] | None) -> None:
        """Take over an adapter's metadata from another process; None: it was removed there."""
        known = (
            None if metadata is None else AdapterMetadata.from_json(json.dumps(metadata).encode())
        )
        if known is not None or metadata is None:
            self._store.note(adapter_id, owner, known)

    def serve_while(self, may_serve: Callable[[], bool]) -> None:
        """Find adapters and go on with adaptations only while this returns True.

        Else NotServedError is raised for adapters; adaptations pause for 10 s at most.
        """
        self._store.serving.only_while(may_serve)
        self._pause_unless(may_serve)

    def place(self) -> Mapping[str, str] | None:
        """Return `identity` and `path` of the folder that servers on other hosts have to share.

        None: there is a store for all, or nothing can be written here.
        """
        return self._store.place()

    def watch(self, callback: Watcher) -> None:
        """Call `callback(owner, adapter_id, metadata)` at each change; metadata None: removed."""
        self._store.watch(callback)
