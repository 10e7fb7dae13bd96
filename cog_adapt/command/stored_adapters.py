"""The adapters in a predictor's folder, for the command line; no model is loaded."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from cog_adapt.adapter_metadata import MetadataJson
from cog_adapt.adapter_rule import OPERATOR, SeveralOwners, choose, parse_reference
from cog_adapt.client.adapters import Format
from cog_adapt.client.files import write_file
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.storage.budgets import budgets_of
from cog_adapt.runner.storage.changes import apply_changes, checked_changes
from cog_adapt.runner.storage.remote import Remote
from cog_adapt.runner.storage.store import AdapterStore
from cog_adapt.server.command.adapter_source import as_json
from cog_adapt.server.command.failures import client_errors
from cog_adapt.server.command.local_server import local_server
from cog_adapt.server.errors import InputError
from cog_adapt.server.middleware.keys import OWNER_NAME

_SETUP_SECONDS = 300.0


class StoredAdapters:
    """The adapters of all owners in a folder, without a model; only `put` starts a server."""

    def __init__(self, settings: RunnerSettings) -> None:
        remote = Remote(settings.adapter_store) if settings.adapter_store else None
        folder = settings.weights_dir / "adapters"
        self._store = AdapterStore(folder, budgets_of(settings), remote)

    def list(
        self, *, name: str | None = None, label: str | None = None, owner: str | None = None
    ) -> Iterator[MetadataJson]:
        """Read the metadata that lie beside the adapters' files."""
        found = (known.to_json() for known in reversed(self._store.describe(owner)))
        named = (each for each in found if name in (None, each["name"]))
        return (each for each in named if label is None or label in (each["labels"] or ()))

    def get(self, reference: str, *, owner: str | None = None) -> MetadataJson:
        """Find an adapter of any owner.

        Raises:
            InputError: no owner has such an adapter, or several owners have one.
        """
        candidates = self._store.describe(owner)
        try:
            found = choose(candidates, parse_reference(reference), OPERATOR, to_change=True)
        except SeveralOwners as error:
            raise InputError(str(error)) from error
        if found is None:
            raise InputError(f"there is no adapter {reference!r} here; `adapters ls` lists them.")
        return found.to_json()

    def download(
        self,
        reference: str,
        path: Path,
        *,
        format: Format = "safetensors",
        owner: str | None = None,
    ) -> Path:
        """Write an adapter to a file, whole or not at all."""
        if format in ("peft", "diffusers", "kohya"):
            raise InputError(f"the format {format} needs the model: name a server with --url.")
        found = self.get(reference, owner=owner)
        is_receipt = format == "receipt"
        content = self._receipt(found) if is_receipt else self._adapter(found)
        ending = "receipt.json" if is_receipt else format
        with client_errors():
            return write_file(path, f"{found['id']}.{ending}", content)

    def _adapter(self, found: MetadataJson) -> bytes:
        return self._store.peek(found["id"], found["owner"]).to_bytes()

    def _receipt(self, found: MetadataJson) -> bytes:
        decision = self._store.decisions.of_adapter(found["owner"], found["id"])
        if decision is None or not decision.receipt:
            raise InputError(
                f"adapter {found['id']} has no receipt: it was sent as a file, or is old."
            )
        return as_json(decision.receipt).encode()

    def upload(self, path: Path) -> MetadataJson:
        """Start a server in this folder, which checks an adapter against its model."""
        with client_errors(), local_server("predict", {}) as client:
            client.wait_until_ready(_SETUP_SECONDS)
            return client.adapters.upload(path)

    def change(
        self, reference: str, changes: Mapping[str, object], *, owner: str | None = None
    ) -> MetadataJson:
        """Change an adapter's metadata."""
        found = self._to_change(reference, owner)
        checked = checked_changes(changes)
        changed = self._store.change(
            found["id"],
            found["owner"],
            lambda known, next_version: apply_changes(known, checked, next_version),
        )
        return changed.to_json()

    def give(self, reference: str, receiver: str, *, owner: str | None = None) -> MetadataJson:
        """Move an adapter to another owner; return its metadata."""
        if not OWNER_NAME.fullmatch(receiver):
            raise InputError(
                f"owner {receiver[:80]!r}: write 1 to 64 letters, digits, dots, '_', '@', '-', "
                "starting with a letter or digit, as in API_KEYS_FILE."
            )
        found = self._to_change(reference, owner)
        return self._store.give(found["id"], found["owner"], receiver).to_json()

    def _to_change(self, reference: str, owner: str | None) -> MetadataJson:
        """Find an adapter that may be changed here.

        Raises:
            InputError: there is none; or a running server would not see the change.
        """
        found = self.get(reference, owner=owner)
        if self._store.is_served():
            raise InputError(
                "a server, or another command, runs on this folder, and would continue to use "
                f"adapter {found['id']} as it was. Name the server with --url, or end it first."
            )
        return found

    def remove(self, reference: str, *, owner: str | None = None) -> MetadataJson:
        """Remove an adapter."""
        found = self._to_change(reference, owner)
        return {"children": self._store.remove(found["id"], found["owner"])}
