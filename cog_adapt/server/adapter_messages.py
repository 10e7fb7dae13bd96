"""What the front process and the worker say to each other about adapters.

Metadata travels as JSON bytes, and an adapter's content as the path of a file.
"""

from typing import Literal

import msgspec

AdapterAction = Literal["describe", "export", "take", "change", "remove", "forget", "note"]
AdapterFormat = Literal["safetensors", "peft", "receipt"]
AdapterFault = Literal["not found", "input", "storage", "unknown"]


class AskAdapters(msgspec.Struct, frozen=True, tag=True):
    """Front to model: do something with an adapter; answered by `AdaptersAnswered`.

    Attributes:
        number: of the question.
        action: what to do; `note` and `forget` go to every worker, the others to one.
        owner: of the adapter.
        adapter_id: of the adapter; "" for one that comes. To be forgotten: a key, or "" for all.
        format: of an export.
        path: the folder of an export, or the file of one that comes.
        changes: a JSON object; in a note all metadata as another worker has made it, null: gone.
    """

    number: int
    action: AdapterAction
    owner: str
    adapter_id: str = ""
    format: AdapterFormat = "safetensors"
    path: str = ""
    changes: bytes = b"{}"


class AdaptersAnswered(msgspec.Struct, frozen=True, tag=True):
    """Model to front: what came of a question.

    Attributes:
        number: of the question.
        answer: JSON; the path of an exported file is a string.
        fault: whose fault it is that there is no answer; None with one.
        error: why there is none.
    """

    number: int
    answer: bytes = b"null"
    fault: AdapterFault | None = None
    error: str = ""


class AdapterChanged(msgspec.Struct, frozen=True, tag=True):
    """Model to front: an adapter is there, or is another now; metadata None: it is gone."""

    owner: str
    adapter_id: str
    metadata: bytes | None = None


class AdaptersListed(msgspec.Struct, frozen=True, tag=True):
    """Model to front: some of all adapters, once in the life of a worker.

    Attributes:
        metadata: a JSON list.
        is_last: whether no more of them follow.
        is_whole: false where they could not be listed.
    """

    metadata: bytes
    is_last: bool
    is_whole: bool = True


AdapterReport = AdaptersAnswered | AdapterChanged | AdaptersListed
