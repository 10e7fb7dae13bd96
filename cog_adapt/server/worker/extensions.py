"""Finds a predictor's optional extensions beside its runs (docs/predictor-protocol.md).

The worker looks at the predictor, then at the values of its attributes. An extension counts if the
type of the object has the method: an object that answers to every name, such as a mock, has none.
"""

import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import msgspec

from cog_adapt.server.protocol import Beat, Distribution, Gauges
from cog_adapt.server.worker.claims import WorkerClaims

T = TypeVar("T")


class SelfTestVerdict(Protocol):
    """The result of a self-test."""

    def to_json(self) -> Mapping[str, Any]:
        """Return the report as JSON; `passed` in it says whether the test passed."""


class SelfTesting(Protocol):
    """Tests itself, for /selftest, readiness and metrics."""

    @property
    def self_test_report(self) -> SelfTestVerdict | None:
        """The report of the last self-test; None before the first self-test.

        A plain attribute of this name does as well.
        """

    def self_test(self) -> SelfTestVerdict:
        """Test again, on any thread, also while predictions run."""


class Measuring(Protocol):
    """Has numbers of its own for /metrics."""

    def gauges(self) -> Mapping[str, Any]:
        """Return the numbers by name; called on any thread at each scrape.

        A histogram is a mapping of `bounds`, `counts` and `sum`; several of one name are in a
        mapping of their label to a mapping of its values. `info` maps labels to texts.
        """


class Ticking(Protocol):
    """Runs a model on one thread, a tick at a time."""

    def model_thread_beat(self) -> tuple[float, float]:
        """Return the running tick's age and its own limit, in seconds.

        Both are 0 while none runs. Called on any thread, often; it returns at once.
        """


class Ending(Protocol):
    """Reports that its process is unusable, for example after some errors of a device."""

    def fatal_error(self) -> str | None:
        """Return why the process must be restarted; None if it need not be.

        Called on any thread, often; it returns at once.
        """


class Owning(Protocol):
    """Keeps the data of different owners apart."""

    def read_owner_from(self, key: str) -> None:
        """Trust this key of a run's context for the owner; called once, before the first run."""


class Administered(Protocol):
    """Lets admins use the data of all owners."""

    def read_admin_from(self, key: str) -> None:
        """Trust this key of a run's context for the admin flag; called as above."""


class Claiming(Protocol):
    """Learns from examples, of equal ones once, though its server has several processes."""

    def claim_through(self, claims: WorkerClaims) -> None:
        """Ask these claims before each adaptation; called once, before the first run."""


class Keeping(Protocol):
    """Returns files that must stay in place."""

    def kept_folders(self) -> Iterable["os.PathLike[str]"]:
        """Return the folders with those files; called once, after setup()."""


class KeepingAdapters(Protocol):
    """Keeps adapters; every method may be called on any thread, also while predictions run."""

    def describe(self, owner: str | None) -> list[dict[str, Any]]:
        """Return the metadata of all adapters of an owner; None: of all owners."""

    def export(
        self,
        owner: str,
        adapter_id: str,
        format: Literal["safetensors", "peft", "diffusers", "kohya", "receipt"],
        folder: Path,
    ) -> Path:
        """Write an adapter, or its receipt, into a folder; return the file."""

    def take(self, owner: str, path: Path) -> dict[str, Any]:
        """Check and store the adapter in a file of either format; return its metadata."""

    def change(self, owner: str, adapter_id: str, changes: dict[str, Any]) -> dict[str, Any]:
        """Change some of an adapter's metadata; return all of it."""

    def remove(self, owner: str, adapter_id: str) -> dict[str, Any]:
        """Remove an adapter; return whether it existed, and the adapters made from it."""

    def watch(self, callback: Callable[[str, str, dict[str, Any] | None], None]) -> None:
        """Call with owner, id and metadata at each change from now on; None: removed."""


_RESERVED = ("le", "worker")  # labels of Prometheus and of the server
_OF_ADAPTERS = ("describe", "export", "take", "change", "remove", "watch")


@runtime_checkable
class ForgetsAdaptations(Protocol):
    """Caches more than adapters."""

    def forget(self, owner: str, key: str | None) -> None:
        """Drop an owner's decisions for this key (`key` of a receipt); None: all."""


@runtime_checkable
class Noting(Protocol):
    """Keeps metadata of adapters in memory, and is told other processes' changes."""

    def note(self, owner: str, adapter_id: str, metadata: dict[str, Any] | None) -> None:
        """Take over an adapter's metadata from another process; None: it was removed."""


@runtime_checkable
class Leased(Protocol):
    """Finds adapters for requests only while its server knows the other servers' changes."""

    def serve_while(self, may_serve: Callable[[], bool]) -> None:
        """Ask `may_serve` whenever an adapter is looked up; called once, before the first run."""


@runtime_checkable
class InAFolder(Protocol):
    """Keeps adapters in a folder, which servers of one database must have in common."""

    def place(self) -> Mapping[str, str] | None:
        """Return the folder's `identity` and `path`; None if every server may have its own."""


def find_adapters(predictor: object) -> KeepingAdapters | None:
    """Return the `adapters` of the predictor, or of one of its attributes; None without one."""
    found = (getattr(each, "adapters", None) for each in _held_by(predictor))
    offered = (each for each in found if all(hasattr(type(each), name) for name in _OF_ADAPTERS))
    keeping: KeepingAdapters | None = next(offered, None)
    return keeping


def find_self_testing(predictor: object) -> SelfTesting | None:
    """Return the object with a self-test, or None."""
    found = _offering(predictor, "self_test")
    return next((each for each in found if hasattr(each, "self_test_report")), None)


def read_extra_gauges(predictor: object) -> Gauges:
    """Return the predictor's own numbers; none if reading them fails."""
    measuring: Measuring | None = next(_offering(predictor, "gauges"), None)
    if measuring is None:
        return Gauges({})
    try:
        shown = dict(measuring.gauges())
        info = shown.pop("info") if isinstance(shown.get("info"), Mapping) else {}
        mappings = [name for name in shown if isinstance(shown[name], Mapping)]
        histograms = {name: _distributions(shown.pop(name)) for name in mappings}
        values = {name: float(value) for name, value in shown.items()}
        return Gauges(values, histograms, msgspec.convert(info, dict[str, str]))
    except Exception:  # noqa: BLE001 - the user's code may raise anything
        traceback.print_exc()
        return Gauges({})


def _distributions(value: Mapping[str, Any]) -> list[Distribution]:
    """Return the histograms of one name, each with its labels.

    Raises:
        ValueError: Prometheus could not show one, which would spoil all metrics.
    """
    if "counts" in value or "bounds" in value:
        return [_distribution(value, {})]
    return [
        _distribution(each, {label: text})
        for label, of_label in value.items()
        for text, each in of_label.items()
    ]


def _distribution(value: Mapping[str, Any], labels: Mapping[str, str]) -> Distribution:
    found = msgspec.convert({**value, "labels": labels}, Distribution)
    if len(found.counts) != len(found.bounds) + 1:
        raise ValueError(
            f"a histogram has {len(found.bounds)} bounds and {len(found.counts)} counts; send one "
            "count more than bounds, for what is beyond the last."
        )
    for label in labels:
        if label in _RESERVED or not (label.isidentifier() and label.isascii()):
            raise ValueError(
                f"{label[:40]!r} cannot be a histogram's label, nor {', '.join(_RESERVED)}; take "
                "another ASCII identifier."
            )
    return found


def read_model_threads(predictor: object) -> Callable[[], Beat]:
    """Return a reader of the model threads' beats: of several, the latest."""
    ticking, ending = (_offering(predictor, name) for name in ("model_thread_beat", "fatal_error"))
    read_beats = _asking([partial(_beat_of, each) for each in ticking])
    read_errors = _asking([partial(_error_of, each) for each in ending])

    def read() -> Beat:
        beats = read_beats()
        busy, allowed = max(beats, key=lambda beat: beat[0] - beat[1], default=(0.0, 0.0))
        return Beat(busy, allowed, next(filter(None, read_errors()), ""))

    return read


def _beat_of(ticking: Ticking) -> tuple[float, float]:
    busy, allowed = ticking.model_thread_beat()
    return float(busy), float(allowed)


def _error_of(ending: Ending) -> str:
    return str(ending.fatal_error() or "")


def _asking(methods: list[partial[T]]) -> Callable[[], list[T]]:
    """Return a function that asks all of these; one that raises is not asked again."""

    def ask() -> list[T]:
        answers = []
        for method in tuple(methods):
            try:
                answers.append(method())
            except Exception:  # noqa: BLE001 - the user's code may raise anything
                methods.remove(method)
                traceback.print_exc()
        return answers

    return ask


def provide_asker_keys(predictor: object, owner_key: str, admin_key: str) -> None:
    """Tell all objects that separate owners the keys of the context that no caller can write."""
    owning: Owning
    for owning in _offering(predictor, "read_owner_from"):
        owning.read_owner_from(owner_key)
    administered: Administered
    for administered in _offering(predictor, "read_admin_from"):
        administered.read_admin_from(admin_key)


def provide_claims(predictor: object, claims: WorkerClaims) -> None:
    """Give all objects that learn the claims of this server."""
    claiming: Claiming
    for claiming in _offering(predictor, "claim_through"):
        claiming.claim_through(claims)


def find_kept_folders(predictor: object) -> tuple[Path, ...]:
    """Return the folders whose files a run may return without losing them."""
    keeping: Iterator[Keeping] = _offering(predictor, "kept_folders")
    return tuple(Path(folder) for each in keeping for folder in each.kept_folders())


def _offering(predictor: object, method: str) -> Iterator[Any]:
    """Yield the predictor and its attributes whose types have a method."""
    return (each for each in _held_by(predictor) if hasattr(type(each), method))


def _held_by(predictor: object) -> tuple[Any, ...]:
    held = tuple(vars(predictor).values()) if hasattr(predictor, "__dict__") else ()
    return (predictor, *held)
