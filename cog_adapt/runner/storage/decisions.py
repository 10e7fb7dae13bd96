"""What adaptations came to, by what was asked: found again instead of done again.

A decision is a small file, `decisions/<key>-<family>-<adapter>.json`, in its owner's folder of
adapters. It goes with its adapter. This module knows no model and no tensors.
"""

import json
import logging
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from cog_adapt.runner.data.files import write_whole
from cog_adapt.runner.errors import StoreError
from cog_adapt.runner.storage.index import place_of

BASE = "base"
_NAME = re.compile(r"([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{16}|base)\.json")
MOST_IN_MEMORY = 1024
MOST_OF_OWNER = 10_000  # on disk; adapters are bounded by their bytes
_MOST_LOOKED_AT = 64  # of a family, the latest first
Wanted = Callable[[tuple[str, ...]], bool]
OnDrop = Callable[[str, "Decision"], None]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Decision:
    """What one adaptation came to.

    Attributes:
        key: of what was asked (`AdaptationKey.whole`).
        family: of the same without the examples.
        adapter: its id; None where the base answers.
        report: as the request that made it was given it.
        receipt: how it was made.
        rows: a digest of each example.
        started_from: the id of the adapter of fewer examples that it went on from; None: of none.
        is_complete: whether the recipe ran to its end.
        state: name of the state that an unfinished one goes on from.
    """

    key: str
    family: str
    adapter: str | None
    report: Mapping[str, Any]
    receipt: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[str, ...] = ()
    started_from: str | None = None
    is_complete: bool = True
    state: str = ""

    @property
    def file_name(self) -> str:
        """What its file is called."""
        return f"{self.key}-{self.family}-{self.adapter or BASE}.json"

    @classmethod
    def from_json(cls, text: bytes) -> Self | None:
        """Read what was written; None where it is damaged."""
        try:
            values = json.loads(text)
            return cls(**(values | {"rows": tuple(values["rows"])}))
        except (KeyError, TypeError, ValueError):
            return None


class Decisions:
    """The decisions of all owners, on any thread.

    Args:
        root: the folder of adapters.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._recent: OrderedDict[tuple[Path, str], dict[str, Decision]] = OrderedDict()
        self._lock = threading.Lock()
        self._on_drop: list[OnDrop] = []

    def find(
        self, owner: str, key: str, *, fresh: bool = False, exact: bool = False
    ) -> Decision | None:
        """Find what ran to its end for this key.

        Args:
            owner: whose it is.
            key: of what is asked.
            fresh: whether one that went on from fewer examples does not count.
            exact: whether only those count that say that they can be repeated bit for bit.
        """
        found = self.recent(owner, key, fresh=fresh, exact=exact)
        if found is not None:
            return found
        return _first(self._all(owner, lambda name: name[0] == key), fresh=fresh, exact=exact)

    def recent(
        self, owner: str, key: str, *, fresh: bool = False, exact: bool = False
    ) -> Decision | None:
        """Find what memory has: all that this process has just decided."""
        with self._lock:
            found = self._recent.get((self._folder(owner), key), {}).values()
            return _first(found, fresh=fresh, exact=exact)

    def largest_part(self, owner: str, family: str, rows: Collection[str]) -> Decision | None:
        """Find the adapter that was made of most of these examples, and of no others."""
        wanted = set(rows)
        found = self._all(owner, lambda name: name[1] == family and name[2] != BASE)
        fitting = [each for each in found if each.is_complete and set(each.rows) < wanted]
        return max(fitting, key=lambda each: len(set(each.rows)), default=None)

    def of_adapter(self, owner: str, adapter_id: str) -> Decision | None:
        """Find how an adapter was made; None where nobody knows."""
        return next(iter(self._all(owner, lambda name: name[2] == adapter_id)), None)

    def keep(self, owner: str, decision: Decision) -> None:
        """Keep a decision; a full disk costs its survival of a restart."""
        folder = self._folder(owner)
        self._note(folder, decision)
        try:
            write_whole(folder / decision.file_name, json.dumps(asdict(decision)).encode())
        except StoreError as error:
            logger.warning("what was decided for %s is in memory only: %s", decision.key, error)
            return
        for name in self._names(owner, lambda _name: True)[MOST_OF_OWNER:]:
            self._drop(owner, name)

    def copy(self, owner: str, adapter_id: str, receiver: str) -> None:
        """Keep how an adapter was made for another owner too, with its receipt."""
        for decision in self._all(owner, lambda name: name[2] == adapter_id):
            self.keep(receiver, replace(decision, state=""))

    def drop(self, owner: str, adapter_id: str) -> None:
        """Drop what an adapter was decided by: it is gone."""
        for name in self._names(owner, lambda name: name[2] == adapter_id):
            self._drop(owner, name)

    def on_change(self, owner: str, adapter_id: str, known: object) -> None:
        """Watch an owner's adapters: None for what is known of one, and it is gone."""
        if known is None:
            self.drop(owner, adapter_id)

    def drop_key(self, owner: str, key: str | None = None) -> None:
        """Drop what was decided for a key; None: all of an owner's."""
        for name in self._names(owner, lambda name: key in (None, name[0])):
            self._drop(owner, name)

    def watch(self, on_drop: OnDrop) -> None:
        """Call with the owner and each decision that is dropped, on its thread."""
        self._on_drop.append(on_drop)

    def _folder(self, owner: str) -> Path:
        place = place_of(owner)
        return (self._root / "owners" / place if place else self._root) / "decisions"

    def _all(self, owner: str, wanted: Wanted) -> list[Decision]:
        """Read what is wanted by key, family and adapter, the latest first."""
        folder, names = self._folder(owner), self._names(owner, wanted)[:_MOST_LOOKED_AT]
        read = (self._read(folder, name) for name in names)
        return [decision for decision in read if decision is not None]

    def _names(self, owner: str, wanted: Wanted) -> list[str]:
        """Name the files of an owner that are wanted, the latest first."""
        folder = self._folder(owner)
        with self._lock:
            recent = [names for (place, _), names in self._recent.items() if place == folder]
        times = {name: float("inf") for names in recent for name in [*names]}
        times |= _times_in(folder)
        parts = {name: found for name in times if (found := _NAME.fullmatch(name))}
        chosen = [name for name, found in parts.items() if wanted(found.groups())]
        return sorted(chosen, key=lambda name: -times[name])

    def _read(self, folder: Path, name: str) -> Decision | None:
        with self._lock:
            recent = self._recent.get((folder, name.partition("-")[0]), {})
        if name in recent:
            return recent[name]
        try:
            decision = Decision.from_json((folder / name).read_bytes())
        except OSError:
            return None
        if decision is None or decision.file_name != name:
            return None
        self._note(folder, decision)
        return decision

    def _note(self, folder: Path, decision: Decision) -> None:
        key = (folder, decision.key)
        with self._lock:
            others = self._recent.pop(key, {})
            self._recent[key] = others | {decision.file_name: decision}
            while len(self._recent) > MOST_IN_MEMORY:
                self._recent.popitem(last=False)

    def _drop(self, owner: str, name: str) -> None:
        folder = self._folder(owner)
        decision = self._read(folder, name)
        if decision is None:
            return
        with self._lock:
            recent = self._recent.pop((folder, decision.key), {})
            left = {each: kept for each, kept in recent.items() if each != name}
            self._recent |= {(folder, decision.key): left} if left else {}
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            logger.warning("%s could not be removed: %s", name, error)
        for on_drop in self._on_drop:
            on_drop(owner, decision)


def _first(found: Iterable[Decision], *, fresh: bool, exact: bool) -> Decision | None:
    counting = (each for each in found if each.is_complete)
    counting = (each for each in counting if not exact or each.report.get("bit_for_bit"))
    return next((each for each in counting if not fresh or each.started_from is None), None)


def _times_in(folder: Path) -> dict[str, float]:
    """Return when each file of a folder was written."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.stat().st_mtime for entry in entries}
    except FileNotFoundError:
        return {}
