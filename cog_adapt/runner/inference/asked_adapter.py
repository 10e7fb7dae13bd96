"""The adapter that one query asks, ready on the device or not yet. Model thread only."""

from collections.abc import Iterable
from functools import cached_property
from typing import Protocol, TypeVar

from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.ready_modules import ReadyModules
from cog_adapt.runner.inference.served_adapters import ReadyAdapter
from cog_adapt.runner.inference.structures import Structure
from cog_adapt.runner.inference.together import SharedForwards


class AskedAdapter:
    """Finds a query's adapter, and whether it can share a forward before it is ready.

    Args:
        modules: makes adapters ready.
        shared: the forwards of several adapters.
        query: names the adapter.
    """

    def __init__(self, modules: ReadyModules, shared: SharedForwards, query: Query) -> None:
        self._modules = modules
        self._shared = shared
        self._query = query

    @property
    def key(self) -> str:
        """The key of the adapter among those that are ready; an owner's is its own."""
        return self._modules.key(self._query)

    @property
    def may_join(self) -> bool:
        """Whether others may join, be it only queries of the same adapter."""
        return self.ready is not None or self.structure is not None

    @property
    def ready(self) -> ReadyAdapter | None:
        """The adapter, if it is ready."""
        return self._modules.ready(self._query)

    @property
    def structure(self) -> Structure | None:
        """The structure of the adapters that may join; None: it runs alone now."""
        ready = self.ready
        if ready is not None:
            return self._shared.structure(ready)
        return self._shared.now(self._structure) if self._modules.can_load(self._query) else None

    def load(self) -> ReadyAdapter:
        """Return the adapter, made ready if it is not (WeightsError if it does not fit)."""
        return self._modules.loaded(self._query)

    @cached_property
    def _structure(self) -> Structure | None:
        adapter = self._query.adapter
        return None if adapter is None else self._shared.structure_of(adapter)


class AsksAdapter(Protocol):
    """A query's work, which can share its ticks with others.

    Attributes:
        asked: the query's adapter.
        alone: whether it may not share forwards.
    """

    asked: AskedAdapter
    alone: bool


Part = TypeVar("Part", bound=AsksAdapter)


def loaded(parts: Iterable[Part]) -> dict[Part, ReadyAdapter]:
    """Make the adapters of these parts ready; a part whose adapter fails runs alone from now on.

    Returns:
        The other parts with their adapters.
    """
    parts = [*parts]
    ready = {part: part.asked.ready for part in parts}  # used first, so that none makes room
    found: dict[Part, ReadyAdapter] = {}
    for part in parts:
        try:
            found[part] = ready[part] or part.asked.load()
        except Exception:  # noqa: BLE001 - its caller gets the error from its next tick, alone
            part.alone = True
    return found
