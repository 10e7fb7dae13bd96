"""Adapters on disk, by id."""

import re
from collections import OrderedDict
from pathlib import Path

from cog_adapt.runner.adapters import Adapter, load_adapter
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.files import write_whole

_RECENT = 64
_ID = re.compile(r"[0-9a-f]{16}")


class AdapterStore:
    """A folder of `<id>.safetensors` files; the newest adapters are known even if it is full.

    Args:
        folder: made when the first adapter is put.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recent: OrderedDict[str, Adapter] = OrderedDict()

    def put(self, adapter: Adapter) -> Path:
        """Write the adapter, whole or not at all; the same content is written once.

        Raises:
            StoreError: the disk is full or not writable.
        """
        self._recent[adapter.id] = adapter
        while len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        path = self._folder / f"{adapter.id}.safetensors"
        if not path.exists():
            write_whole(path, adapter.to_bytes())
        return path

    def get(self, adapter_id: str) -> Adapter:
        """Read an adapter.

        Raises:
            InputError: no such id.
            WeightsError: the file is damaged.
        """
        if adapter_id in self._recent:
            return self._recent[adapter_id]
        path = self._folder / f"{adapter_id}.safetensors"
        if not _ID.fullmatch(adapter_id) or not path.is_file():
            raise InputError(
                f"adapter {adapter_id!r} is not known here; an id has 16 hex digits and comes from "
                "an earlier answer of this server. Send its examples again, or its weights file."
            )
        return load_adapter(path)
