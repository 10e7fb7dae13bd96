"""Adapters on disk, by owner and id."""

import hashlib
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

    An owner's adapters lie in a folder of their own inside it; "" is who asks where there are no
    owners, as under plain Cog. What lies in the folder itself is known to every owner: it was made
    before there were any.

    Args:
        folder: made when the first adapter is put.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recent: OrderedDict[tuple[str, str], Adapter] = OrderedDict()

    def put(self, adapter: Adapter, owner: str = "") -> Path:
        """Write the adapter, whole or not at all; the same content is written once.

        Raises:
            StoreError: the disk is full or not writable.
        """
        self._recent[owner, adapter.id] = adapter
        while len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        path = self._folder_of(owner) / f"{adapter.id}.safetensors"
        if not path.exists():
            write_whole(path, adapter.to_bytes())
        return path

    def get(self, adapter_id: str, owner: str = "") -> Adapter:
        """Read an adapter.

        Raises:
            InputError: this owner has no adapter of that id.
            WeightsError: the file is damaged.
        """
        for place in dict.fromkeys((owner, "")):
            recent = self._recent.get((place, adapter_id))
            if recent is not None:
                return recent
            path = self._folder_of(place) / f"{adapter_id}.safetensors"
            if _ID.fullmatch(adapter_id) and path.is_file():
                return load_adapter(path)
        raise InputError(
            f"adapter {adapter_id!r} is not known here; an id has 16 hex digits and comes from "
            "an earlier answer of this server. Send its examples again, or its file as `weights`."
        )

    def _folder_of(self, owner: str) -> Path:
        if not owner:
            return self._folder
        return self._folder / "owners" / hashlib.sha256(owner.encode()).hexdigest()[:32]
