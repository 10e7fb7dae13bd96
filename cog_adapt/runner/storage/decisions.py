"""The results of adaptations by key, so that an equal request finds its result.

A decision is a small file, `decisions/<key>-<family>-<adapter>.json`, of its owner, in the folder
of adapters or in the remote store. It is removed with its adapter. This module knows no model and
no tensors.
"""

import json
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from cog_adapt.runner.errors import StoreError
from cog_adapt.runner.storage.decision_files import DecisionFiles
from cog_adapt.runner.storage.index import place_of
from cog_adapt.runner.storage.remote import Remote

BASE = "base"
_NAME = re.compile(r"([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{16}|base)\.json")
MOST_IN_MEMORY = 1024
MOST_OF_OWNER = 10_000  # decisions of an owner on disk; adapters are bounded by their bytes
_MOST_LOOKED_AT = 64  # the latest decisions of a family
Wanted = Callable[[tuple[str, ...]], bool]
OnDrop = Callable[[str, "Decision"], None]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Decision:
    """The result of one adaptation.

    Attributes:
        key: the key of the adaptation (`AdaptationKey.whole`).
        family: the key of the adaptation without its examples.
        adapter: the id of the adapter; None: the base answers.
        report: the report that the request which made the adapter received.
        receipt: how the adapter was made.
        rows: a digest of each example.
        started_from: the id of the adapter of fewer examples that the adaptation continued from, or
            None.
        is_complete: whether the recipe ran to its end.
        state: the name of the checkpoint that an unfinished adaptation continues from.
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
        """The name of its file."""
        return f"{self.key}-{self.family}-{self.adapter or BASE}.json"

    @classmethod
    def from_json(cls, text: bytes) -> Self | None:
        """Read a decision's file; None if it is damaged."""
        try:
            values = json.loads(text)
            return cls(**(values | {"rows": tuple(values["rows"])}))
        except (KeyError, TypeError, ValueError):
            return None


def is_decision(name: str) -> bool:
    """Return whether a file has the name of a decision."""
    return _NAME.fullmatch(name) is not None


class Decisions:
    """The decisions of all owners, usable on any thread.

    Args:
        root: the folder of adapters.
        remote: the remote store, which then has the decisions of all processes; or None.
    """

    def __init__(self, root: Path, remote: Remote | None = None) -> None:
        self._files = DecisionFiles(root, remote)
        self._recent: OrderedDict[tuple[str, str], dict[str, Decision]] = OrderedDict()
        self._lock = threading.Lock()
        self._on_drop: list[OnDrop] = []

    def find(
        self, owner: str, key: str, *, fresh: bool = False, exact: bool = False
    ) -> Decision | None:
        """Find a complete decision for this key.

        Args:
            owner: of the decision.
            key: of the adaptation.
            fresh: whether a decision that continued from fewer examples is ignored.
            exact: whether only decisions that are repeatable bit for bit count.
        """
        found = self.recent(owner, key, fresh=fresh, exact=exact)
        if found is not None:
            return found
        of_key = self._all(owner, lambda name: name[0] == key, key)
        return _first(of_key, fresh=fresh, exact=exact)

    def recent(
        self, owner: str, key: str, *, fresh: bool = False, exact: bool = False
    ) -> Decision | None:
        """Find a decision in memory: one that this process made lately."""
        with self._lock:
            found = self._recent.get((place_of(owner), key), {}).values()
            return _first(found, fresh=fresh, exact=exact)

    def largest_part(self, owner: str, family: str, rows: Collection[str]) -> Decision | None:
        """Find the adapter that was made from the most of these examples, and from no others."""
        wanted = set(rows)
        found = self._all(owner, lambda name: name[1] == family and name[2] != BASE)
        fitting = [each for each in found if each.is_complete and set(each.rows) < wanted]
        return max(fitting, key=lambda each: len(set(each.rows)), default=None)

    def of_adapter(self, owner: str, adapter_id: str) -> Decision | None:
        """Find the decision that made an adapter, or None."""
        return next(iter(self._all(owner, lambda name: name[2] == adapter_id)), None)

    def keep(self, owner: str, decision: Decision) -> None:
        """Store a decision; one that cannot be written is lost at the next restart."""
        place = place_of(owner)
        self._note(place, decision)
        try:
            self._files.write(place, decision.file_name, json.dumps(asdict(decision)).encode())
        except StoreError as error:
            logger.warning("the decision for %s is in memory only: %s", decision.key, error)
            return
        for name in self._names(owner, lambda _name: True)[MOST_OF_OWNER:]:
            self._drop(owner, name)

    def copy(self, owner: str, adapter_id: str, receiver: str) -> None:
        """Store an adapter's decision and receipt for another owner too."""
        for decision in self._all(owner, lambda name: name[2] == adapter_id):
            self.keep(receiver, replace(decision, state=""))

    def drop(self, owner: str, adapter_id: str) -> None:
        """Drop the decisions of an adapter that was removed."""
        for name in self._names(owner, lambda name: name[2] == adapter_id):
            self._drop(owner, name)

    def on_change(self, owner: str, adapter_id: str, known: object) -> None:
        """Watch an owner's adapters: metadata None means that the adapter was removed."""
        if known is None:
            self.drop(owner, adapter_id)

    def drop_key(self, owner: str, key: str | None = None) -> None:
        """Drop an owner's decisions for a key; None: all."""
        for name in self._names(owner, lambda name: key in (None, name[0]), key or ""):
            self._drop(owner, name)

    def watch(self, on_drop: OnDrop) -> None:
        """Call `on_drop` with the owner and each decision that is dropped.

        The call is made on the thread that drops the decision.
        """
        self._on_drop.append(on_drop)

    def _all(self, owner: str, wanted: Wanted, key: str = "") -> list[Decision]:
        """Read an owner's decisions that match `wanted`, the latest first; a key limits them."""
        place, names = place_of(owner), self._names(owner, wanted, key)[:_MOST_LOOKED_AT]
        read = (self._read(place, name) for name in names)
        return [decision for decision in read if decision is not None]

    def _names(self, owner: str, wanted: Wanted, key: str = "") -> list[str]:
        """Return the file names of an owner's matching decisions, the latest first."""
        place = place_of(owner)
        with self._lock:
            recent = [
                names for (owner_place, _), names in self._recent.items() if owner_place == place
            ]
        times = {name: float("inf") for names in recent for name in [*names]}
        times |= self._files.names(place, key)
        parts = {name: found for name in times if (found := _NAME.fullmatch(name))}
        chosen = [name for name, found in parts.items() if wanted(found.groups())]
        return sorted(chosen, key=lambda name: -times[name])

    def _read(self, place: str, name: str) -> Decision | None:
        with self._lock:
            recent = self._recent.get((place, name.partition("-")[0]), {})
        if name in recent:
            return recent[name]
        content = self._files.read(place, name)
        decision = None if content is None else Decision.from_json(content)
        if decision is None or decision.file_name != name:
            return None
        self._note(place, decision)
        return decision

    def _note(self, place: str, decision: Decision) -> None:
        key = (place, decision.key)
        with self._lock:
            others = self._recent.pop(key, {})
            self._recent[key] = others | {decision.file_name: decision}
            while len(self._recent) > MOST_IN_MEMORY:
                self._recent.popitem(last=False)

    def _drop(self, owner: str, name: str) -> None:
        place = place_of(owner)
        decision = self._read(place, name)
        if decision is None:
            return
        with self._lock:
            recent = self._recent.pop((place, decision.key), {})
            left = {each: kept for each, kept in recent.items() if each != name}
            self._recent |= {(place, decision.key): left} if left else {}
        self._files.remove(place, name)
        for on_drop in self._on_drop:
            on_drop(owner, decision)


def _first(found: Iterable[Decision], *, fresh: bool, exact: bool) -> Decision | None:
    counting = (each for each in found if each.is_complete)
    counting = (each for each in counting if not exact or each.report.get("bit_for_bit"))
    return next((each for each in counting if not fresh or each.started_from is None), None)
