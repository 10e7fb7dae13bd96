"""The messages between the front process and the worker about adapters and adaptations.

Metadata travels as JSON bytes, and an adapter's content as the path of a file.
"""

import time
from typing import Final, Literal

import msgspec

AdapterAction = Literal["describe", "export", "take", "change", "remove", "forget", "note"]
AdapterFormat = Literal["safetensors", "peft", "diffusers", "kohya", "receipt"]
AdapterFault = Literal["not found", "input", "storage", "unavailable", "unknown"]
LEASE_SECONDS: Final = 10.0  # how long a server serves adapters without news of other servers


def lease_clock() -> float:
    """Return seconds since the boot: the same number in all processes, which nobody can set."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class AskAdapters(msgspec.Struct, frozen=True, tag=True):
    """Front to model: act on an adapter; answered by `AdaptersAnswered`.

    Attributes:
        number: of the request.
        action: `note` and `forget` go to every worker, the others to one.
        owner: of the adapter.
        adapter_id: of the adapter; "" for an upload. For `forget` a key, or "" for all keys.
        format: of an export.
        path: the folder of an export, or the file of an upload.
        changes: a JSON object; for `note` all metadata from another worker, null: removed.
    """

    number: int
    action: AdapterAction
    owner: str
    adapter_id: str = ""
    format: AdapterFormat = "safetensors"
    path: str = ""
    changes: bytes = b"{}"


class AdaptersAnswered(msgspec.Struct, frozen=True, tag=True):
    """Model to front: the answer to a request.

    Attributes:
        number: of the request.
        answer: JSON; the path of an exported file is a string.
        fault: the side at fault if there is no answer; else None.
        error: the reason.
    """

    number: int
    answer: bytes = b"null"
    fault: AdapterFault | None = None
    error: str = ""


class KeepServing(msgspec.Struct, frozen=True, tag=True):
    """Front to model, at each beat: all changes of other servers so far are applied.

    Attributes:
        until: when the worker stops finding adapters, by `lease_clock`.
    """

    until: float


class AdapterChanged(msgspec.Struct, frozen=True, tag=True):
    """Model to front: an adapter was added or changed; metadata None: it was removed."""

    owner: str
    adapter_id: str
    metadata: bytes | None = None


class AdaptersListed(msgspec.Struct, frozen=True, tag=True):
    """Model to front: a part of the list of all adapters, sent once in the life of a worker.

    Attributes:
        metadata: a JSON list.
        is_last: whether this is the last part.
        is_whole: false if the adapters could not be listed.
    """

    metadata: bytes
    is_last: bool
    is_whole: bool = True


class Claim(msgspec.Struct, frozen=True, tag=True):
    """Model to front: a run wants to learn; answered by `Claimed`.

    Attributes:
        number: of the claim.
        owner: of the adaptation.
        key: equal keys of an owner are equal adaptations.
    """

    number: int
    owner: str
    key: str


class Claimed(msgspec.Struct, frozen=True, tag=True):
    """Front to model: the answer to a claim; `is_held` may follow a refusal when its turn comes."""

    number: int
    is_held: bool


class Unclaim(msgspec.Struct, frozen=True, tag=True):
    """Model to front: the run has ended, or waits no longer."""

    number: int


AdapterReport = AdaptersAnswered | AdapterChanged | AdaptersListed | Claim | Unclaim
